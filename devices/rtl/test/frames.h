// Frames for tests, made byte by byte from the tables of docs/strict.md: nothing of this is shared with the devices.
#pragma once

#include <cstdint>
#include <vector>

using Bytes = std::vector<uint8_t>;

struct Random {
    uint64_t state;
    uint64_t next() {
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    uint64_t below(uint64_t n) { return next() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }
};

inline void big(Bytes &to, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

inline uint16_t inverse_sum(const uint8_t *bytes, size_t len) {
    uint32_t sum = 0;
    for (size_t i = 0; i < len; i += 2) sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

struct Address {
    uint64_t mac;
    uint32_t ip;
    uint16_t port;
};

inline Bytes datagram(Address from, Address to, const Bytes &payload) {
    Bytes f;
    big(f, to.mac, 6);
    big(f, from.mac, 6);
    big(f, 0x08004500, 4);
    big(f, payload.size() + 28, 2);
    big(f, 0x00004000, 4);
    big(f, 0x40110000, 4);
    big(f, from.ip, 4);
    big(f, to.ip, 4);
    uint16_t check = inverse_sum(&f[14], 20);
    f[24] = static_cast<uint8_t>(check >> 8);
    f[25] = static_cast<uint8_t>(check);
    big(f, from.port, 2);
    big(f, to.port, 2);
    big(f, payload.size() + 8, 2);
    big(f, 0, 2);
    f.insert(f.end(), payload.begin(), payload.end());
    return f;
}
