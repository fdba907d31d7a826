// The device behind packet sockets. Says "ready" on stderr when all sockets are open.
#include "packet.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

namespace {

const size_t BATCH = 64, FRAME_MAX = 9216;
volatile sig_atomic_t stopped;

void stop(int) { stopped = 1; }

int64_t now_ps() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec) * 1000;
}

// Without rights on the host a buffer is as large as the host lets it be.
bool enlarge(int fd, int by_force, int else_by) {
    int room = 32 << 20;
    return !setsockopt(fd, SOL_SOCKET, by_force, &room, sizeof room) || !setsockopt(fd, SOL_SOCKET, else_by, &room, sizeof room);
}

// A socket on an interface; -1 with a message.
int open_port(const std::string &name) {
    sockaddr_ll address{};
    packet_mreq promiscuous{};
    int one = 1;
    // Bound before it receives: a socket of protocol 0 receives nothing.
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    promiscuous.mr_type = PACKET_MR_PROMISC;
    address.sll_ifindex = promiscuous.mr_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
    bool good = fd >= 0 && address.sll_ifindex != 0 && enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF) &&
                enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF) && !setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) &&
                !setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) &&
                !bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address);
    if (good) return fd;
    std::fprintf(stderr, "device: packet socket on %s: %s\n", name.c_str(), std::strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

class Sockets {
public:
    Sockets(Device &served, const PacketOptions &with) : device(served), options(with) {}

    bool open() {
        for (const std::string &name : options.interfaces) {
            ports.push_back({open_port(name), POLLIN, 0});
            if (ports.back().fd < 0) return false;
        }
        return true;
    }

    void serve() {
        int64_t start = now_ps();
        write_counters();
        while (!stopped) {
            bool got = false;
            for (unsigned port = 0; port < ports.size(); port++) got |= receive(port, options.paced ? now_ps() - start : t);
            t = options.paced ? now_ps() - start : t + device.clock_ps;
            run();
            if (got) {
                changed = true;
                continue;
            }
            bool waits = device.next() >= 0;
            if (waits) continue;
            if (changed) write_counters();
            // Signals are let in here alone, so that none comes between the check above and the wait.
            sigset_t none;
            sigemptyset(&none);
            timespec limit{0, 100000000};
            ppoll(ports.data(), ports.size(), &limit, &none);
        }
        write_counters();
        std::printf("%s\n", text().c_str());
    }

private:
    bool receive(unsigned port, int64_t at) {
        static uint8_t bytes[BATCH][FRAME_MAX];
        iovec vectors[BATCH];
        mmsghdr messages[BATCH];
        std::memset(messages, 0, sizeof messages);
        for (size_t i = 0; i < BATCH; i++) {
            vectors[i] = {bytes[i], FRAME_MAX};
            messages[i].msg_hdr.msg_iov = &vectors[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        int got = recvmmsg(ports[port].fd, messages, BATCH, MSG_DONTWAIT, nullptr);
        for (int i = 0; i < got; i++) device.arrive(at, port, bytes[i], messages[i].msg_len);
        return got > 0;
    }

    // Up to the present where edges keep to the host's clock, else until nothing is left to do.
    void run() {
        for (;;) {
            out.clear();
            int64_t until = options.paced ? t : INT64_MAX - device.clock_ps;
            int64_t happened = device.advance(until, out);
            for (const Frame &frame : out) send_on(frame);
            if (happened == until) return;
            if (!options.paced) t = happened;
        }
    }

    void send_on(const Frame &frame) {
        for (unsigned port = 0; port < ports.size(); port++) {
            if (!(frame.ports >> port & 1)) continue;
            for (int tries = 0;; tries++) {
                if (send(ports[port].fd, frame.bytes.data(), frame.bytes.size(), 0) >= 0) break;
                bool again = errno == EAGAIN || errno == ENOBUFS || errno == EINTR;
                if (!again || tries == 1000) {
                    refused++;
                    break;
                }
                usleep(100);
            }
        }
    }

    std::string text() {
        // The socket's own count goes back to zero when it is read.
        for (pollfd &port : ports) {
            tpacket_stats stats{};
            socklen_t len = sizeof stats;
            if (!getsockopt(port.fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len)) lost += stats.tp_drops;
        }
        std::string all = device.counters();
        all.pop_back();
        return all + ",\"refused\":" + std::to_string(refused) + ",\"lost\":" + std::to_string(lost) + "}";
    }

    void write_counters() {
        changed = false;
        if (options.counters.empty()) return;
        std::string fresh = options.counters + ".new";
        FILE *file = std::fopen(fresh.c_str(), "w");
        if (!file) return;
        std::fprintf(file, "%s\n", text().c_str());
        std::fclose(file);
        std::rename(fresh.c_str(), options.counters.c_str());
    }

    Device &device;
    const PacketOptions &options;
    std::vector<pollfd> ports;
    std::vector<Frame> out;
    int64_t t = 0;
    uint64_t refused = 0, lost = 0;
    bool changed = false;
};

}  // namespace

int packet(Device &device, const PacketOptions &options) {
    sigset_t blocked;
    struct sigaction action {};
    action.sa_handler = stop;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    Sockets sockets(device, options);
    if (!sockets.open()) return 3;
    std::fprintf(stderr, "ready\n");
    sockets.serve();
    return 0;
}
