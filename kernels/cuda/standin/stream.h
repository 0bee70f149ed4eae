// Streams: each a thread of its own that runs enqueued work in order, and waits for no other stream unless told.
//
// Between two operations a stream dawdles, by a seeded draw, so that a missing wait shows as wrong bits: the other
// stream is ahead or behind as the seed has it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace standin {

class Device;

/// A mark. Each record makes a new ticket; a wait is for the ticket that was the last one when it was enqueued.
class Event {
public:
    struct Ticket {
        std::atomic<bool> done{false};
        std::chrono::steady_clock::time_point at;
    };
    std::shared_ptr<Ticket> record();
    std::shared_ptr<Ticket> last();

private:
    std::mutex mutex_;
    std::shared_ptr<Ticket> last_;
};

class Stream {
public:
    Stream(Device& device, std::uint64_t seed, int priority);
    /// Lets the enqueued work end.
    ~Stream();

    /// Enqueues; nothing is run any more once the device has failed.
    void enqueue(std::function<void()> operation);
    void record(Event& event);
    void wait(Event& event);
    /// The stream never gets past this.
    void hang();
    void synchronize();
    Device& device() { return device_; }

    const int priority;  // recorded; nothing here runs sooner for it

private:
    struct Operation {
        std::function<void()> run;
        bool always;    // marks are set in a failed device too
    };
    void push(Operation operation);
    void work();
    void dawdle();

    Device& device_;
    std::uint64_t draw_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Operation> operations_;
    bool busy_ = false, ending_ = false;
    std::thread thread_;
};

}  // namespace standin
