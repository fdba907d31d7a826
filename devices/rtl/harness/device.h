// A device in Verilog under Verilator: frames in, frames out, at edges of its clock. One thread; knows neither sockets nor clocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct Frame {
    int64_t t;       // ps
    uint32_t ports;  // in: the number of one port; out: a bit for each port
    std::vector<uint8_t> bytes;
};

// The output of a stream: a link of so many bits per second behind a store of so many bytes, beyond which words wait.
struct Link {
    double ps_per_byte = 0;  // 0: takes a word at each edge
    int64_t store_bytes = 128;
    int64_t overhead_bytes = 0;  // that each frame has on the link besides its own
    double busy_until = 0;

    bool ready(int64_t t) const;
    double ready_at() const;
    void take(int64_t t, int64_t bytes, bool last);
};

// What a queue did at an edge: 1 to 7 decide upon an arrival (olaf_queue.v), DEPARTED begins a departure.
struct Event {
    int64_t t;
    unsigned kind, worker, count;
};
enum { DEPARTED = 8 };

class Dut;  // the Verilog: dut.cpp

class Device {
public:
    explicit Device(int64_t clock_ps);
    ~Device();

    static const char *name();
    // Writes an entry of the control plane's tables.
    void configure(unsigned address, uint64_t value);
    // The last bit of a frame arrives. Times never decrease.
    void arrive(int64_t t, unsigned port, const uint8_t *bytes, size_t len);
    // Lets all happen up to and including `until`, but stops behind the first edge at which frames leave, which it appends.
    // Returns up to when all has happened.
    int64_t advance(int64_t until, std::vector<Frame> &out);
    // No frame leaves before this without a further one; -1: none ever.
    int64_t next() const;
    // Cumulative counts as a JSON object.
    std::string counters() const;

    int64_t clock_ps;
    unsigned server_port = UINT32_MAX;  // frames from there enter by the second stream, where there is one
    Link links[2];
    std::function<void(const Event &)> watch;  // called in the order of time; at one edge decisions come first
    size_t room = 4096;  // frames that wait for an input stream

private:
    struct Input {
        std::deque<Frame> waiting;
        size_t offset = 0;
    };
    void report(int64_t t);
    void drive(int64_t t);
    bool edge(std::vector<Frame> &out);
    bool rests() const;
    bool idle() const;

    std::unique_ptr<Dut> dut;
    Input inputs[2];
    Frame leaving[2];
    int64_t waits_until = 0;  // the link; nothing happens before
    int64_t cycle = 0;  // the next edge
    uint64_t cycles = 0, frames_in = 0, frames_out = 0, overrun = 0;
};
