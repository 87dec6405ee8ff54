#include "experiments/oom_claims/loading.h"

#include <memory>
#include <string>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/text.h"
#include "stages/artifact/loader.h"
#include "stages/plan/memory_trace.h"

namespace oom_claims {
namespace {

class GrayImages final : public stages::Dataset {
 public:
  explicit GrayImages(stages::LoaderOptions options) : options_(options) {}
  stages::DatasetDescription describe() const override {
    return {128, {{"image", {3, 64, 64}, at::kFloat}}, {}};
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t) const override {
    return stages::NamedTensors{{"image", torch::full({3, 64, 64}, 0.5)}};
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  stages::LoaderOptions loader() const override { return options_; }

 private:
  const stages::LoaderOptions options_;
};

}  // namespace

Reading read_ahead(std::int64_t workers, std::int64_t prefetch) {
  const auto data =
      std::make_shared<GrayImages>(stages::LoaderOptions{.workers = workers, .prefetch = prefetch});
  Reading reading;
  const stages::MemoryTrace trace({.device = at::kCUDA});
  stages::Loader loader(data, stages::sequential_order(128), 16, 0);
  while (const auto batch = loader.next())
    reading.host_bytes = static_cast<std::int64_t>((*batch)["image"].nbytes());
  reading.device_blocks = static_cast<std::int64_t>(trace.events().size());
  return reading;
}

Finding prefetching_takes_device_memory() {
  const Reading two = read_ahead(2, 2), four = read_ahead(2, 4);
  return {.verdict = four.device_blocks > two.device_blocks ? Verdict::kRight : Verdict::kWrong,
          .measured = "blocks allocated on the device while 8 batches are read: " +
                      std::to_string(two.device_blocks) + " with a prefetch factor of 2, " +
                      std::to_string(four.device_blocks) + " with 4; a batch takes " +
                      size(two.host_bytes) + " of host memory",
          .instead = "prefetched batches wait in host memory"};
}

}  // namespace oom_claims
