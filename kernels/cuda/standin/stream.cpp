#include "stream.h"

#include "device.h"

namespace standin {

std::shared_ptr<Event::Ticket> Event::record() {
    std::lock_guard lock(mutex_);
    return last_ = std::make_shared<Ticket>();
}

std::shared_ptr<Event::Ticket> Event::last() {
    std::lock_guard lock(mutex_);
    return last_;
}

Stream::Stream(Device& device, std::uint64_t seed, int priority)
    : priority(priority), device_(device), draw_(seed), thread_([this] { work(); }) {}

Stream::~Stream() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Stream::enqueue(std::function<void()> operation) { push({std::move(operation), false}); }

void Stream::record(Event& event) {
    push({[ticket = event.record()] {
              ticket->at = std::chrono::steady_clock::now();
              ticket->done.store(true, std::memory_order_release);
          },
          true});
}

void Stream::wait(Event& event) {
    auto ticket = event.last();
    if (!ticket) return;
    enqueue([this, ticket] {
        while (!ticket->done.load(std::memory_order_acquire) && !device_.failure())
            std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
}

void Stream::hang() {
    enqueue([] {
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(3600));
    });
}

void Stream::synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return operations_.empty() && !busy_; });
}

void Stream::push(Operation operation) {
    {
        std::lock_guard lock(mutex_);
        operations_.push_back(std::move(operation));
    }
    changed_.notify_all();
}

void Stream::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return ending_ || !operations_.empty(); });
        if (operations_.empty()) return;
        Operation operation = std::move(operations_.front());
        operations_.pop_front();
        busy_ = true;
        lock.unlock();
        dawdle();
        if (operation.always || !device_.failure()) operation.run();
        lock.lock();
        busy_ = false;
        changed_.notify_all();
    }
}

void Stream::dawdle() {
    // SplitMix64.
    std::uint64_t z = draw_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    // Mostly not at all; now and then long enough for another stream to get far ahead.
    if (z % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(z / 16 % 3000));
}

}  // namespace standin
