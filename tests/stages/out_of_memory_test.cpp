#include "stages/out_of_memory.h"

#include <new>
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace stages {
namespace {

template <typename Run>
bool runs_out_of_memory(const Run& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return is_out_of_memory(error);
  }
  ADD_FAILURE() << "nothing was thrown";
  return false;
}

TEST(OutOfMemory, IsToldFromOtherErrors) {
  EXPECT_TRUE(runs_out_of_memory([] { torch::empty({std::int64_t{1} << 50}, torch::kByte); }));  // the CPU's own
  EXPECT_TRUE(runs_out_of_memory([] { throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "full"); }));
  EXPECT_TRUE(runs_out_of_memory([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(runs_out_of_memory([] { throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 2, "full"); }));
  EXPECT_FALSE(runs_out_of_memory([] { throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700, "lost"); }));
  EXPECT_FALSE(runs_out_of_memory([] { torch::ones({2, 3}).mm(torch::ones({2, 3})); }));
  EXPECT_FALSE(runs_out_of_memory([] { throw std::runtime_error("can't allocate memory"); }));
}

}  // namespace
}  // namespace stages
