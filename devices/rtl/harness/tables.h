#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device.h"

// Reads "NAME=VALUE" pairs and writes the device's tables; false with what is wrong.
bool write_tables(Device &device, const std::vector<std::string> &sets, std::string &wrong);
const char *table_help();

// An IPv4 address, an Ethernet address or a number.
bool read_value(const std::string &text, uint64_t &value);
// The Ethernet address that pktgen gives to an IPv4 address (docs/strict.md).
uint64_t mac_of(uint32_t ip);
