#include "tests/support/stand_in/address_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <stdexcept>

#include "tests/support/stand_in/faults.h"

namespace stand_in {
namespace {

constexpr std::size_t kPage = 4096;

/// The data that a signal handler may use: the mappings, and the pages that host code has touched.
struct Mapping {
  char* begin = nullptr;
  std::size_t bytes = 0;
};
std::array<Mapping, 8> mappings;
std::atomic<int> mapping_count = 0;
std::array<char*, 64> touched;
std::atomic<int> touched_count = 0;
struct sigaction before;

void see_access(int signal, siginfo_t* info, void* context) {
  auto* const address = static_cast<char*>(info->si_addr);
  for (int i = 0; i < mapping_count; ++i) {
    const Mapping& one = mappings[static_cast<std::size_t>(i)];
    if (address < one.begin || address >= one.begin + one.bytes) continue;
    char* const page = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(address) &
                                               ~std::uintptr_t{kPage - 1});
    const int place = touched_count++;
    if (place < static_cast<int>(touched.size())) touched[static_cast<std::size_t>(place)] = page;
    write_line("host code touches GPU memory");
    mprotect(page, kPage, PROT_READ | PROT_WRITE);
    return;
  }
  sigaction(SIGSEGV, &before, nullptr);
  static_cast<void>(signal);
  static_cast<void>(context);
}

void watch(char* begin, std::size_t bytes) {
  mappings.at(static_cast<std::size_t>(mapping_count.load())) = {begin, bytes};
  if (mapping_count++ > 0) return;
  struct sigaction action = {};
  action.sa_sigaction = see_access;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
}

}  // namespace

AddressSpace::AddressSpace(std::size_t bytes) : file_(memfd_create("GPU", MFD_CLOEXEC)) {
  bytes_ = bytes / kPage * kPage;
  const auto map = [&](int protection) {
    void* const begin =
        mmap(nullptr, bytes_, protection, MAP_SHARED | MAP_NORESERVE, file_, /*offset=*/0);
    if (begin == MAP_FAILED) throw std::runtime_error("the stand-in has no addresses for a GPU");
    return static_cast<char*>(begin);
  };
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes_)) != 0)
    throw std::runtime_error("the stand-in cannot create the memory of a GPU");
  of_tensors_ = map(PROT_NONE);
  of_kernels_ = map(PROT_READ | PROT_WRITE);
  unused_[of_tensors_] = bytes_;
  watch(of_tensors_, bytes_);
}

bool AddressSpace::contains(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  return at >= of_tensors_ && at < of_tensors_ + bytes_;
}

void* AddressSpace::for_kernels(const void* address) const {
  return address ? of_kernels_ + (static_cast<const char*>(address) - of_tensors_) : nullptr;
}

void* AddressSpace::take(std::size_t bytes) {
  for (auto& [begin, size] : unused_) {
    if (size < bytes) continue;
    char* const taken = begin;
    const std::size_t rest = size - bytes;
    unused_.erase(taken);
    if (rest > 0) unused_[taken + bytes] = rest;
    return taken;
  }
  return nullptr;
}

void AddressSpace::give_back(void* begin, std::size_t bytes) {
  auto* first = static_cast<char*>(begin);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first - of_tensors_,
            static_cast<off_t>(bytes));
  const auto after = unused_.find(first + bytes);
  if (after != unused_.end()) {
    bytes += after->second;
    unused_.erase(after);
  }
  auto place = unused_.lower_bound(first);
  if (place != unused_.begin() && std::prev(place)->first + std::prev(place)->second == first)
    std::prev(place)->second += bytes;
  else unused_[first] = bytes;
}

int close_touched_pages() {
  const int count = touched_count.exchange(0);
  for (int i = 0; i < count && i < static_cast<int>(touched.size()); ++i)
    mprotect(touched[static_cast<std::size_t>(i)], kPage, PROT_NONE);
  return count;
}

}  // namespace stand_in
