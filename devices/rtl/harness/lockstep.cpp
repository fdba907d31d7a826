// The device's side of the lockstep protocol (docs/lockstep.md).
#include "lockstep.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

enum Kind : uint8_t { HELLO = 1, WELCOME, FRAME_IN, ADVANCE, FRAME_OUT, ADVANCED, COUNTERS, COUNTED, QUIT };
const uint16_t VERSION = 1;
const size_t MESSAGE_MAX = 65536;

class Peer {
public:
    explicit Peer(int socket) : fd(socket) {}

    // One message; false at the end of the connection.
    bool receive(uint8_t &kind, std::vector<uint8_t> &body) {
        uint8_t head[4];
        if (!fill(head, 4)) return false;
        uint32_t length = head[0] | head[1] << 8 | head[2] << 16 | static_cast<uint32_t>(head[3]) << 24;
        if (length < 1 || length > MESSAGE_MAX) return fail("a length outside of 1 to 65536");
        if (!fill(&kind, 1)) return fail("cut");
        body.resize(length - 1);
        return length == 1 || fill(body.data(), length - 1) || fail("cut");
    }

    void begin(uint8_t kind, size_t body) {
        number(body + 1, 4);
        pending.push_back(kind);
    }
    void number(uint64_t value, int bytes) {
        for (int i = 0; i < bytes; i++) pending.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    void bytes(const void *data, size_t len) {
        auto *from = static_cast<const uint8_t *>(data);
        pending.insert(pending.end(), from, from + len);
    }
    bool flush() {
        size_t done = 0;
        while (done < pending.size()) {
            ssize_t wrote = send(fd, pending.data() + done, pending.size() - done, MSG_NOSIGNAL);
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote <= 0) return false;
            done += static_cast<size_t>(wrote);
        }
        pending.clear();
        return true;
    }
    bool fail(const char *what) {
        std::fprintf(stderr, "lockstep: a message is wrong: %s\n", what);
        broken = true;
        return false;
    }
    bool broken = false;

private:
    bool fill(uint8_t *to, size_t len) {
        while (len) {
            if (from == till) {
                ssize_t got = recv(fd, buffer, sizeof buffer, 0);
                if (got < 0 && errno == EINTR) continue;
                if (got <= 0) return false;
                from = 0;
                till = static_cast<size_t>(got);
            }
            size_t some = std::min(len, till - from);
            std::memcpy(to, buffer + from, some);
            from += some, to += some, len -= some;
        }
        return true;
    }
    int fd;
    uint8_t buffer[65536];
    size_t from = 0, till = 0;
    std::vector<uint8_t> pending;
};

int64_t time_of(const uint8_t *p) {
    int64_t t;
    std::memcpy(&t, p, 8);
    return t;
}

int dial(const std::string &path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0) return fd;
    return -1;
}

// Returns up to when all has happened.
int64_t advance(Device &device, Peer &peer, int64_t until) {
    std::vector<Frame> out;
    int64_t t = device.advance(until, out);
    for (const Frame &frame : out) {
        for (unsigned port = 0; port < 32; port++) {
            if (!(frame.ports >> port & 1)) continue;
            peer.begin(FRAME_OUT, 10 + frame.bytes.size());
            peer.number(static_cast<uint64_t>(frame.t), 8);
            peer.number(port, 2);
            peer.bytes(frame.bytes.data(), frame.bytes.size());
        }
    }
    peer.begin(ADVANCED, 16);
    peer.number(static_cast<uint64_t>(t), 8);
    peer.number(static_cast<uint64_t>(device.next()), 8);
    return t;
}

// Serves messages until one says quit; the exit code.
int serve(Device &device, Peer &peer, unsigned ports) {
    uint8_t kind;
    std::vector<uint8_t> body;
    int64_t now = 0, given = 0;
    while (peer.receive(kind, body)) {
        switch (kind) {
        case FRAME_IN: {
            if (body.size() < 10) return peer.fail("frame_in of less than ten bytes"), 1;
            int64_t t = time_of(body.data());
            unsigned port = body[8] | body[9] << 8;
            if (t < now || t < given) return peer.fail("frame_in in the past"), 1;
            if (port >= ports) return peer.fail("frame_in on a port that the device has not"), 1;
            given = t;
            device.arrive(t, port, body.data() + 10, body.size() - 10);
            continue;
        }
        case ADVANCE: {
            if (body.size() != 8) return peer.fail("advance of other than eight bytes"), 1;
            int64_t until = time_of(body.data());
            if (until < now) return peer.fail("advance into the past"), 1;
            now = advance(device, peer, until);
            break;
        }
        case COUNTERS: {
            std::string text = device.counters();
            peer.begin(COUNTED, text.size());
            peer.bytes(text.data(), text.size());
            break;
        }
        case QUIT: return 0;
        default: return peer.fail("an unknown kind"), 1;
        }
        if (!peer.flush()) return 1;
    }
    if (!peer.broken) std::fprintf(stderr, "lockstep: the connection ended without quit\n");
    return 1;
}

}  // namespace

int lockstep(Device &device, const std::string &path, unsigned ports) {
    int fd = dial(path);
    if (fd < 0) {
        std::fprintf(stderr, "lockstep: cannot connect to %s: %s\n", path.c_str(), std::strerror(errno));
        return 3;
    }
    Peer peer(fd);
    std::string name = Device::name();
    peer.begin(HELLO, 12 + name.size());
    peer.number(VERSION, 2);
    peer.number(ports, 2);
    peer.number(static_cast<uint64_t>(device.clock_ps), 8);
    peer.bytes(name.data(), name.size());
    uint8_t kind;
    std::vector<uint8_t> body;
    int code = 1;
    if (peer.flush() && peer.receive(kind, body)) {
        bool right = kind == WELCOME && body.size() == 10 && (body[0] | body[1] << 8) == VERSION;
        if (right) code = serve(device, peer, ports);
        else std::fprintf(stderr, "lockstep: hello was not answered by a welcome of version %u\n", VERSION);
    }
    close(fd);
    return code;
}
