#pragma once

#include <string>
#include <vector>

#include "device.h"

struct PacketOptions {
    std::vector<std::string> interfaces;  // port 0, port 1, ...
    std::string counters;                 // file that always holds the counts; empty for none
    bool paced = false;                   // edges keep to the host's clock, for links with a rate
};

// Serves packet sockets until SIGTERM or SIGINT; the exit code of the process.
int packet(Device &device, const PacketOptions &options);
