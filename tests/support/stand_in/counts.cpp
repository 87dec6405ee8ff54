#include "tests/support/stand_in/counts.h"

#include <mutex>

#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

Counts& all() {
  static auto* const counts = new Counts;  // tensors outlive static objects
  return *counts;
}

}  // namespace

Counts counts() {
  const std::lock_guard guard(lock());
  return all();
}

Counts operator-(const Counts& later, const Counts& earlier) {
  Counts result;
  for (const auto member : {&Counts::launches, &Counts::copies_to_gpu, &Counts::bytes_to_gpu,
                            &Counts::copies_ahead, &Counts::copies_to_host, &Counts::bytes_to_host,
                            &Counts::pageable_copies, &Counts::waits, &Counts::left_by_waits})
    result.*member = later.*member - earlier.*member;
  for (const auto& [operation, launches] : later.launches_of) {
    const auto before = earlier.launches_of.find(operation);
    const std::int64_t since =
        launches - (before == earlier.launches_of.end() ? 0 : before->second);
    if (since != 0) result.launches_of[operation] = since;
  }
  return result;
}

void count_launch(const std::string& operation) {
  const std::lock_guard guard(lock());
  ++all().launches;
  ++all().launches_of[operation];
}

void count_copy(bool is_to_host, bool is_pinned, std::int64_t bytes) {
  const std::lock_guard guard(lock());
  (is_to_host ? all().copies_to_host : all().copies_to_gpu) += 1;
  (is_to_host ? all().bytes_to_host : all().bytes_to_gpu) += bytes;
  all().pageable_copies += is_pinned ? 0 : 1;
}

void count_copy_ahead() {
  const std::lock_guard guard(lock());
  ++all().copies_ahead;
}

void count_wait(std::int64_t left) {
  const std::lock_guard guard(lock());
  ++all().waits;
  all().left_by_waits += left;
}

}  // namespace stand_in
