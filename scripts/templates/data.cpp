#include <memory>
#include <string>

#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/random/random.h"

namespace stages {
namespace {

/// The options of schemas/data/novel.schema.json.
struct NovelConfig {
  std::int64_t size = 0;
  std::int64_t classes = 0;
};

/// One part of the data. A sample is a function of (seed, part, index).
class NovelDataset final : public Dataset {
 public:
  NovelDataset(const NovelConfig& config, std::uint64_t seed, std::uint64_t part)
      : config_(config), seed_(seed), part_(part) {}

  DatasetDescription describe() const override {
    DatasetDescription description;
    description.size = config_.size;
    description.tensors = {{"image", {3, kSide, kSide}, at::kFloat}, {"label", {}, at::kLong}};
    for (std::int64_t i = 0; i < config_.classes; ++i) description.classes.push_back("class" + std::to_string(i));
    return description;
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const std::int64_t label = index % config_.classes;
    Random random({seed_, part_, static_cast<std::uint64_t>(index)});
    at::Tensor image = torch::empty({3, kSide, kSide});
    for (float& value : std::span(image.mutable_data_ptr<float>(), static_cast<std::size_t>(image.numel()))) {
      value = static_cast<float>(static_cast<double>(label) + random.uniform(-1, 1));
    }
    return NamedTensors{{"image", image}, {"label", torch::tensor(label)}};
  }
  std::string sample_name(std::int64_t index) const override { return "sample" + std::to_string(index); }
  LoaderOptions loader() const override { return {}; }

 private:
  static constexpr std::int64_t kSide = 8;
  const NovelConfig config_;
  const std::uint64_t seed_, part_;
};

class Novel final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    NovelConfig config;
    reader.read("size", config.size);
    reader.read("classes", config.classes);
    if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Novel>(config));
  }

  explicit Novel(const NovelConfig& config) : config_(config) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    const auto part = [&](std::uint64_t number) {
      return std::make_shared<NovelDataset>(config_, context.seed(), number);
    };
    return {{"train", part(0)}, {"validation", part(1)}, {"test", part(2)}};
  }

 private:
  const NovelConfig config_;
};

}  // namespace

extern const runner::StageKind kDataNovel = {.name = "data.novel", .create = Novel::create};

}  // namespace stages
