// What the harness needs of a top module; each has a file of its own.
#pragma once

#include <cstdint>

// Ports of a word stream, as Verilator has them.
struct StreamIn {
    uint32_t *data;
    uint64_t *keep;
    uint8_t *last, *valid, *ready, *user;
};
struct StreamOut {
    uint32_t *data;
    uint64_t *keep;
    uint8_t *last, *valid, *ready;
    uint32_t *user;
    uint8_t *start;  // another frame may begin; null where nothing asks
};

class Dut {
public:
    Dut();
    ~Dut();
    void half(bool high);  // sets the clock and evaluates
    void evaluate();
    bool busy() const;
    bool still() const;  // nothing changes at the next edge
    void reset(bool on);
    void configure(bool valid, unsigned address, uint64_t value);
    void time(int64_t ns);
    // What happened at the edge before: at most one arrival was decided upon, at most one departure began.
    bool decided(unsigned &kind, unsigned &worker) const;
    bool departed(unsigned &worker, unsigned &count) const;

    int ins = 0, outs = 0;
    StreamIn in[2];
    StreamOut out[2];

    static const char *name;
    static const char *const *counter_names;  // ends with a null
    uint64_t counter(int index) const;

private:
    struct Model;
    Model *model;
};
