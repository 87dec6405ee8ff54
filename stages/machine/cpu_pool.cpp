#include "stages/machine/cpu_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "runner/shared/text/units.h"
#include "stages/machine/memory_meter.h"

namespace stages {
namespace {

constexpr std::int64_t kHugePage = 2 << 20;
constexpr std::int64_t kLeastAddresses = 64 << 20;  // the smallest useful address space

thread_local Lane lane_of_thread = Lane::kStep;

std::int64_t huge_page_before(std::int64_t address) { return address / kHugePage * kHugePage; }
std::int64_t huge_page_after(std::int64_t address) {
  return huge_page_before(address + kHugePage - 1);
}

/// Returns the size of the address space. Addresses cost no memory, so it is many times larger than
/// the memory ever reserved, and no arena runs out. If the process has a limit (ulimit -v), half of
/// the remaining address space is left free.
std::int64_t wanted_addresses() {
  const std::int64_t machine =
      std::max<std::int64_t>(kilobytes_field("/proc/meminfo", "MemTotal"), kLeastAddresses);
  rlimit may{};
  if (getrlimit(RLIMIT_AS, &may) != 0 || may.rlim_cur == RLIM_INFINITY) return 16 * machine;
  const std::int64_t left =
      static_cast<std::int64_t>(may.rlim_cur) - kilobytes_field("/proc/self/status", "VmSize");
  return std::clamp<std::int64_t>(left / 2, kLeastAddresses, 16 * machine);
}

/// An address range on a huge-page boundary, initially without memory.
class Addresses final : public Pages {
 public:
  explicit Addresses(std::int64_t wanted) {
    for (bytes_ = huge_page_after(wanted); bytes_ >= kLeastAddresses;
         bytes_ = huge_page_before(bytes_ / 2)) {
      // Reserved memory should equal resident memory, so a huge page is used only if all of it is
      // reserved.
      mapped_ = mmap(nullptr, static_cast<std::size_t>(bytes_ + kHugePage), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (mapped_ != MAP_FAILED) break;
    }
    if (bytes_ < kLeastAddresses) throw std::bad_alloc();
    start_ = reinterpret_cast<char*>(huge_page_after(reinterpret_cast<std::int64_t>(mapped_)));
    advise({0, bytes_}, MADV_NOHUGEPAGE);
  }
  ~Addresses() override { munmap(mapped_, static_cast<std::size_t>(bytes_ + kHugePage)); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  std::int64_t bytes() const { return bytes_; }
  char* at(std::int64_t address) const { return start_ + address; }
  std::int64_t address_of(const void* data) const {
    return static_cast<const char*>(data) - start_;
  }

  bool take(AddressRange range) override {
    if (mprotect(at(range.begin), static_cast<std::size_t>(range.bytes()),
                 PROT_READ | PROT_WRITE) != 0)
      return false;
    const AddressRange whole{huge_page_after(range.begin), huge_page_before(range.end)};
    if (whole.bytes() > 0) advise(whole, MADV_HUGEPAGE);
    return true;
  }
  void give_back(AddressRange range) override {
    advise({huge_page_before(range.begin), huge_page_after(range.end)}, MADV_NOHUGEPAGE);
    advise(range, MADV_DONTNEED);
  }

 private:
  void advise(AddressRange range, int advice) const {
    madvise(at(range.begin), static_cast<std::size_t>(range.bytes()),
            advice);  // some kernels do not support huge pages
  }

  std::int64_t bytes_ = 0;
  void* mapped_ = MAP_FAILED;
  char* start_ = nullptr;
};

}  // namespace

/// The allocator. Its blocks may outlive the scope, so blocks and scope share ownership of it.
class CpuPool::Memory final : public c10::Allocator, public std::enable_shared_from_this<Memory> {
 public:
  Memory(CpuPool* scope, std::int64_t addresses)
      : scope(scope),
        addresses(addresses > 0 ? addresses : wanted_addresses()),
        pool(this->addresses.bytes(), &this->addresses) {}

  c10::DataPtr allocate(std::size_t size) override {
    if (size == 0) return {nullptr, at::Device(at::kCPU)};
    const auto bytes = static_cast<std::int64_t>(size);
    auto block = std::make_unique<Block>(Block{shared_from_this(), 0});
    {
      const std::lock_guard lock(mutex);
      const std::optional<std::int64_t> address = pool.allocate(bytes, lane_of_thread);
      if (!address) refuse(bytes);
      block->address = *address;
    }
    return {addresses.at(block->address), block.release(), free, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }  // the context is not the data pointer
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  CpuPool* scope;
  std::mutex mutex;
  Addresses addresses;
  BlockPool pool;

 private:
  /// The owner's record of a block; free() deletes it.
  struct Block {
    std::shared_ptr<Memory> memory;
    std::int64_t address;
  };
  static void free(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    if (!block) return;
    const std::lock_guard lock(block->memory->mutex);
    block->memory->pool.free(block->address);
  }
  [[noreturn]] void refuse(std::int64_t bytes) const {
    using runner::bytes_text;
    std::string message =
        "tried to reserve " + bytes_text(bytes) + " while " + bytes_text(pool.reserved());
    if (pool.limit()) message += " of " + bytes_text(*pool.limit());
    message += " are reserved";
    if (!pool.limit() || pool.wanted_limit() <= *pool.limit())
      message += ", and the system has no more memory";
    TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: ", message);
  }
};

CpuPool::CpuPool(std::int64_t addresses)
    : memory_(std::make_shared<Memory>(this, addresses)), before_(c10::GetCPUAllocator()) {
  c10::SetCPUAllocator(memory_.get());
  if (c10::GetCPUAllocator() != memory_.get())
    throw std::logic_error("CPU pool: the current allocator cannot be replaced");
}

CpuPool::~CpuPool() {
  c10::SetCPUAllocator(before_);
  memory_->scope = nullptr;
}

CpuPool* CpuPool::of(c10::Allocator* allocator) {
  auto* const memory = dynamic_cast<Memory*>(allocator);
  return memory ? memory->scope : nullptr;
}

std::int64_t CpuPool::allocated() const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.allocated();
}
std::int64_t CpuPool::reserved() const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.reserved();
}
std::int64_t CpuPool::reserved(Lane of) const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.reserved(of);
}
std::int64_t CpuPool::peak_reserved() const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.peak_reserved();
}
std::int64_t CpuPool::retries() const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.retries();
}
void CpuPool::empty_cache() {
  const std::lock_guard lock(memory_->mutex);
  memory_->pool.empty_cache();
}
void CpuPool::set_limit(std::optional<std::int64_t> bytes) {
  const std::lock_guard lock(memory_->mutex);
  memory_->pool.set_limit(bytes);
}
std::optional<std::int64_t> CpuPool::limit() const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.limit();
}
std::int64_t CpuPool::wanted_limit() const {
  const std::lock_guard lock(memory_->mutex);
  return memory_->pool.wanted_limit();
}
bool CpuPool::contains(const void* data) const {
  const std::int64_t address = memory_->addresses.address_of(data);
  return address >= 0 && address < memory_->addresses.bytes();
}

ScopedLaneBeside::ScopedLaneBeside() : before_(std::exchange(lane_of_thread, Lane::kBeside)) {}
ScopedLaneBeside::~ScopedLaneBeside() { lane_of_thread = before_; }

}  // namespace stages
