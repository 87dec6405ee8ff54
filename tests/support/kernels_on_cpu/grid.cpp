#include "tests/support/kernels_on_cpu/grid.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace kernels_on_cpu {
namespace {

dim3 index_of(std::size_t number, const dim3& size) {
  const std::size_t row = number / size.x;
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(row % size.y),
          static_cast<unsigned>(row / size.y)};
}

/// Returns the numbers from 0 to count - 1 in an order.
std::vector<std::size_t> ordered(std::size_t count, Order order, std::mt19937_64& random) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  switch (order) {
    case Order::kForward:
      break;
    case Order::kBackward:
      std::ranges::reverse(numbers);
      break;
    case Order::kShuffled:
      std::ranges::shuffle(numbers, random);
      break;
  }
  return numbers;
}

}  // namespace

std::size_t count_of(const dim3& size) { return std::size_t{size.x} * size.y * size.z; }

ScopedConstant::ScopedConstant(const char* name, const void* begin, std::size_t size)
    : begin_(begin) {
  shadow().add({name, begin, size, MemoryKind::kConstant, true});
}

ScopedConstant::~ScopedConstant() { shadow().remove(begin_); }

Grid::Grid(const Configuration& configuration, const KernelCall& kernel, const Schedule& schedule)
    : kernel_(kernel),
      schedule_(schedule),
      constants_{{"the arguments", kernel.arguments, kernel.size},
                 {"threadIdx", &threadIdx, sizeof threadIdx},
                 {"blockIdx", &blockIdx, sizeof blockIdx},
                 {"blockDim", &blockDim, sizeof blockDim},
                 {"gridDim", &gridDim, sizeof gridDim}},
      random_(schedule.seed),
      threads_(std::span(all_threads()).first(count_of(configuration.block))) {
  now_.launch = ++launches_;
  blockDim = configuration.block;
  gridDim = configuration.grid;
  gridDim.x = std::min(gridDim.x, schedule.most_blocks);
  running_ = this;
}

/// The threads of all launches, so that their stacks are allocated once.
std::vector<Grid::Thread>& Grid::all_threads() {
  static std::vector<Thread> threads(kMostThreads);
  return threads;
}

std::string Grid::run() {
  for (const std::size_t block : ordered(count_of(gridDim), schedule_.blocks, random_)) {
    now_.block = static_cast<std::int64_t>(block);
    blockIdx = index_of(block, gridDim);
    run_block();
    if (!fault_.empty()) return std::string(kernel_.name) + ": " + fault_;
  }
  return "";
}

void Grid::run_block() {
  for (Thread& thread : threads_) thread.fiber.start([this] { kernel_.call(kernel_.arguments); });
  for (now_.barriers = 0; fault_.empty(); ++now_.barriers) {
    run_to_barrier();
    if (std::ranges::all_of(threads_, [](const Thread& one) { return one.line == 0; })) return;
    check_barrier();
  }
}

void Grid::run_to_barrier() {
  for (const std::size_t i : ordered(threads_.size(), schedule_.threads, random_)) {
    now_.thread = static_cast<std::int64_t>(i);
    threadIdx = index_of(i, blockDim);
    threads_[i].line = 0;
    threads_[i].fiber.resume();
    if (!fault_.empty()) return;
  }
}

/// All threads of a block must wait at the same barrier.
void Grid::check_barrier() {
  const int line = threads_.front().line;
  const auto other =
      std::ranges::find_if(threads_, [line](const Thread& one) { return one.line != line; });
  if (other == threads_.end() || !fault_.empty()) return;
  const auto state = [](int waits) {
    return waits == 0 ? " has ended" : " waits at the barrier in line " + std::to_string(waits);
  };
  fault_ = "thread 0 of block " + std::to_string(now_.block) + state(line) + ", but thread " +
           std::to_string(other - threads_.begin()) + state(other->line);
}

Grid::Thread& Grid::current() { return threads_[static_cast<std::size_t>(now_.thread)]; }

void Grid::wait(int line) {
  current().line = line;
  current().fiber.pause();
}

void Grid::see(const Access& access) {
  Fiber& fiber = current().fiber;
  if (fiber.owns(access.address)) return;
  std::optional<std::string> fault = shadow().see(access, now_);
  if (!fault) return;
  fault_ = std::move(*fault);
  fiber.pause();  // it is not resumed
}

}  // namespace kernels_on_cpu
