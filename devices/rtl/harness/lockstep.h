#pragma once

#include <string>

#include "device.h"

// Serves one connection to the Unix socket at `path`; the exit code of the process.
int lockstep(Device &device, const std::string &path, unsigned ports);
