#include "runner/shared/disk/parked_thread.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

namespace runner {
namespace {

std::mutex work_of_parked;  // held while a thread is working and while the process forks
std::atomic<int> parked_count = 0;

void park_all_for_copies() {
  [[maybe_unused]] static const int once =
      pthread_atfork([] { work_of_parked.lock(); }, [] { work_of_parked.unlock(); },
                     [] {
                       work_of_parked.unlock();
                       parked_count = 0;
                     });
}

}  // namespace

BlockedSignals::BlockedSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

BlockedSignals::~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

ParkedThread::ParkedThread(std::chrono::milliseconds interval, std::function<bool()> work) {
  park_all_for_copies();
  const BlockedSignals blocked;
  ++parked_count;
  try {
    thread_ = std::jthread([interval, work = std::move(work)](const std::stop_token& stop) {
      std::mutex own;
      std::condition_variable_any end;
      std::unique_lock lock(own);
      while (!end.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); })) {
        const std::scoped_lock working(work_of_parked);
        if (!work()) return;
      }
    });
  } catch (const std::system_error&) {
    --parked_count;
    throw;
  }
}

ParkedThread::~ParkedThread() {
  thread_.request_stop();
  thread_.join();
  --parked_count;
}

int ParkedThread::count() { return parked_count; }

}  // namespace runner
