// The adder against the host's float, bit for bit. Usage: random_f32_add PAIRS SEED
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "Vf32_add.h"
#include "frames.h"

namespace {

// Numbers of all kinds: any bits, extremes, and such as are near to others.
uint32_t number(Random &random, uint32_t other) {
    static const uint32_t special[] = {0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x00800001, 0x807fffff, 0x80800000,
        0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, 0xff812345};
    uint32_t any = static_cast<uint32_t>(random.next());
    switch (random.below(8)) {
    case 0: return special[random.below(sizeof special / sizeof *special)];
    case 1: return any & 0x80ffffff;                                             // subnormal and smallest
    case 2: return other ^ 0x80000000 ^ static_cast<uint32_t>(random.below(16));  // nearly cancels
    case 3: return (other & 0x7f800000) + (any & 0x80ffffff);                     // like exponents
    case 4: return (other & 0x7f800000) - (static_cast<uint32_t>(random.below(30)) << 23) + (any & 0x807fffff);
    case 5: return any & 0xfff80000;                                              // ties
    default: return any;
    }
}

}  // namespace

int main(int count, char **words) {
    uint64_t pairs = count > 1 ? std::strtoull(words[1], nullptr, 10) : 10000000;
    Random random{count > 2 ? std::strtoull(words[2], nullptr, 10) : 1};
    Vf32_add adder;
    uint64_t nan = 0, infinite = 0, subnormal = 0;
    adder.step = 1;
    uint32_t previous[2] = {};
    for (uint64_t i = 0; i < pairs + 2; i++) {
        uint32_t a = number(random, static_cast<uint32_t>(random.next())), b = number(random, a);
        adder.a = a, adder.b = b;
        adder.clk = 0;
        adder.eval();
        adder.clk = 1;
        adder.eval();
        // The sum of the pair before this one.
        float x, y, z;
        uint32_t wanted;
        std::memcpy(&x, &previous[0], 4);
        std::memcpy(&y, &previous[1], 4);
        volatile float first = x, second = y;
        z = first + second;
        std::memcpy(&wanted, &z, 4);
        bool is_nan = z != z, right = wanted == adder.sum;
#ifndef __x86_64__
        right = right || (is_nan && (adder.sum & 0x7fffffff) > 0x7f800000);
#endif
        if (i >= 1 && !right) {
            std::printf("%08x + %08x is %08x, and the host has %08x\n", previous[0], previous[1], adder.sum, wanted);
            return 1;
        }
        nan += is_nan;
        infinite += (wanted & 0x7fffffff) == 0x7f800000;
        subnormal += (wanted & 0x7f800000) == 0 && (wanted & 0x7fffff) != 0;
        previous[0] = a, previous[1] = b;
    }
    std::printf("%llu sums, among them %llu NaN, %llu infinite, %llu subnormal\n", static_cast<unsigned long long>(pairs),
        static_cast<unsigned long long>(nan), static_cast<unsigned long long>(infinite), static_cast<unsigned long long>(subnormal));
    return nan == 0 || infinite == 0 || subnormal == 0;
}
