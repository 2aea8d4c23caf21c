/* GCC before 12.4 and 13.3 takes a tile configuration to be as long as a pointer and leaves out the stores to the rest of
   it (its bug 114098); llama.cpp's AMX products then end in a fault. Here the whole of it is used. */
#if defined(__AMX_TILE__)
#include <immintrin.h>
#define _tile_loadconfig(config)                              \
    do {                                                      \
        __asm__ volatile("" : : "r"(config) : "memory");      \
        (_tile_loadconfig)(config);                           \
    } while (0)
#endif
