// A training step on the CPU pool under a memory budget (stages/machine/cpu_pool.h,
// counting_allocator.h), compared with malloc, both with glibc's defaults and with each large block
// returned to the kernel at once.

#include <malloc.h>
#include <sys/resource.h>

#include <array>

#include <torch/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/threads.h"
#include "tests/bench/blocks.h"

namespace {

/// Convolutions and BatchNorm with residual connections, forward and backward.
class Step {
 public:
  Step(std::int64_t batch, std::int64_t size)
      : x_(torch::randn({batch, 16, size, size})), labels_(torch::randint(10, {batch})) {
    for (torch::nn::Conv2d& layer : convolutions_)
      layer = torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3).padding(1).bias(false));
    for (torch::nn::BatchNorm2d& layer : norms_) layer = torch::nn::BatchNorm2d(16);
  }
  void operator()() {
    at::Tensor x = x_;
    for (std::size_t i = 0; i < convolutions_.size(); ++i)
      x = torch::relu(x + norms_[i](convolutions_[i](x)));
    std::vector<at::Tensor> parameters;
    for (const auto& layer : convolutions_) parameters.push_back(layer->weight);
    for (const auto& layer : norms_)
      parameters.insert(parameters.end(), {layer->weight, layer->bias});
    torch::autograd::grad({torch::cross_entropy_loss(x.mean({2, 3}), labels_)}, parameters);
  }

 private:
  const at::Tensor x_, labels_;
  std::array<torch::nn::Conv2d, 16> convolutions_{
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  std::array<torch::nn::BatchNorm2d, 16> norms_{
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
};

/// When blocks are returned to the kernel: at once, or when glibc does so by default.
void set_thresholds(bool at_once) {
  mallopt(M_MMAP_THRESHOLD, at_once ? 128 << 10 : 32 << 20);
  mallopt(M_TRIM_THRESHOLD, at_once ? 16 << 20 : 64 << 20);
}

/// CPU time of all threads, which excludes other load on the machine.
double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

/// One argument, JSON: {"threads", "batch"}. A block runs the given number of steps of each size on
/// each side; its answer is {"seconds": {size: {"retort", "torch" or "returning": CPU seconds per
/// step}}}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  stages::use_threads(options.at("threads").get<int>());
  const auto batch = options.at("batch").get<std::int64_t>();
  Step small(batch, 8), large(batch, 56);
  const std::vector<std::pair<std::string, Step*>> steps = {{"8 x 8", &small}, {"56 x 56", &large}};
  report({{"ready", true}});
  while (const std::optional<int> block = next_block()) {
    nlohmann::json seconds;
    for (const auto& [name, step] : steps) {
      for (const std::string side : {"retort", "torch", "returning"}) {
        set_thresholds(side == "returning");
        std::optional<stages::CpuPool> pool;
        std::optional<stages::CountingAllocator> allocator;
        if (side == "retort") {
          pool.emplace();
          allocator.emplace().set_limit(std::int64_t{1} << 40);
        }
        (*step)();
        const double began = processor_seconds();
        for (int i = 0; i < *block; ++i) (*step)();
        seconds[name][side] = (processor_seconds() - began) / *block;
      }
    }
    report({{"seconds", seconds}});
  }
}
