#include "tests/support/kernels_on_cpu/launch.h"

#include <string>
#include <utility>

#include "tests/support/kernels_on_cpu/grid.h"

namespace kernels_on_cpu {
namespace {

Schedule current_schedule;
cudaError_t last_error = cudaSuccess;
std::string last_fault;

}  // namespace

ScopedSchedule::ScopedSchedule(const Schedule& schedule)
    : before_(std::exchange(current_schedule, schedule)) {}

ScopedSchedule::~ScopedSchedule() { current_schedule = before_; }

void run_grid(const Configuration& configuration, const KernelCall& kernel) {
  const std::size_t threads = count_of(configuration.block);
  if (count_of(configuration.grid) == 0 || threads == 0 || threads > Grid::kMostThreads) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  std::string fault = Grid(configuration, kernel, current_schedule).run();
  if (fault.empty()) return;
  last_error = cudaErrorLaunchFailure;
  last_fault = std::move(fault);
}

void see_access(const void* address, std::size_t size, bool is_write) {
  if (Grid* const grid = Grid::running()) grid->see({address, size, is_write});
}

void wait_at_barrier(int line) { Grid::running()->wait(line); }

cudaError_t take_error() { return std::exchange(last_error, cudaSuccess); }

const char* text_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorLaunchFailure:
      return last_fault.c_str();
  }
  return "unknown error";
}

}  // namespace kernels_on_cpu
