#include "tables.h"

#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>

bool read_value(const std::string &text, uint64_t &value) {
    in_addr address;
    unsigned b[6];
    char rest;
    if (text.find('.') != std::string::npos && inet_pton(AF_INET, text.c_str(), &address) == 1) {
        value = ntohl(address.s_addr);
        return true;
    }
    if (std::sscanf(text.c_str(), "%x:%x:%x:%x:%x:%x%c", b, b + 1, b + 2, b + 3, b + 4, b + 5, &rest) == 6) {
        value = 0;
        for (unsigned byte : b) value = value << 8 | (byte & 0xff);
        return true;
    }
    char *end;
    value = std::strtoull(text.c_str(), &end, 0);
    return !text.empty() && *end == 0;
}

uint64_t mac_of(uint32_t ip) {
    if (ip >> 28 == 14) return 0x01005e000000ull | (ip & 0x7fffff);
    return 0x020000000000ull | ip;
}
