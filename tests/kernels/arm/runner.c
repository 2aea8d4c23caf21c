/* Runs kernels on memory that another process sends; team.py is its other half. Needs no C library, which would take
   a minute to build for ARM.

   Says where its memory is (8 bytes); then, again and again: reads three words (bytes of memory, instructions,
   threads), that much memory, and the instructions (number of the kernel, 18 arguments); runs each instruction for one
   thread after the other; sends the memory back. Ends with the input, with 1 where it is cut off, with 2 where a kernel
   reports an error. */

typedef long word;
typedef int kernel(void *result, void **error, word *arguments, word thread, word threads);

enum { READ = 63, WRITE = 64, EXIT = 93 }; /* system calls of Linux on ARM */

extern kernel *const kernels[];
static unsigned char memory[1 << 26] __attribute__((aligned(64)));

static word system_call(word number, word a, void *b, word c) {
    register word x8 __asm__("x8") = number, x0 __asm__("x0") = a, x2 __asm__("x2") = c;
    register void *x1 __asm__("x1") = b;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

static void finish(word status) {
    for (;;)
        system_call(EXIT, status, 0, 0);
}

/* Loops of kernels that fill memory become calls of it. */
void *memset(void *bytes, int value, unsigned long n) {
    for (unsigned long i = 0; i < n; i++)
        ((volatile unsigned char *)bytes)[i] = (unsigned char)value;
    return bytes;
}

/* Moves all n bytes, in or out; 0 where they end before the first. */
static int move(word call, void *bytes, word n) {
    for (word done = 0; done < n;) {
        word moved = system_call(call, call == WRITE, (char *)bytes + done, n - done);
        if (moved <= 0 && done == 0)
            return 0;
        if (moved <= 0)
            finish(1);
        done += moved;
    }
    return 1;
}

static void run_instruction(word threads) {
    word instruction[19];
    void *result, *error;
    if (!move(READ, instruction, sizeof instruction))
        finish(1);
    for (word thread = 0; thread < threads; thread++)
        if (kernels[instruction[0]](&result, &error, instruction + 1, thread, threads) != 0)
            finish(2);
}

void _start(void) {
    word head[3];
    void *address = memory;
    move(WRITE, &address, sizeof address);
    while (move(READ, head, sizeof head)) {
        if (head[0] > (word)sizeof memory || !move(READ, memory, head[0]))
            finish(1);
        for (word i = 0; i < head[1]; i++)
            run_instruction(head[2]);
        move(WRITE, memory, head[0]);
    }
    finish(0);
}
