// A worker with a nondeterministic data.image_folder: it changes one value of the third training
// image that is read, differently in each process.
#include <unistd.h>

#include <atomic>
#include <vector>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "stages/artifact/dataset.h"
#include "stages/stages.h"
#include "stages/worker/requests.h"
#include "stages/worker/worker.h"

namespace {

class UnsteadyDataset final : public stages::Dataset {
 public:
  explicit UnsteadyDataset(std::shared_ptr<const Dataset> steady) : steady_(std::move(steady)) {}
  stages::DatasetDescription describe() const override { return steady_->describe(); }
  std::optional<stages::NamedTensors> sample(std::int64_t epoch,
                                             std::int64_t index) const override {
    auto sample = steady_->sample(epoch, index);
    if (++asked_ == 3) sample->at("image").flatten()[0].add_(1e-3 * (1 + getpid() % 1000));
    return sample;
  }
  std::string sample_name(std::int64_t index) const override { return steady_->sample_name(index); }
  stages::LoaderOptions loader() const override { return steady_->loader(); }

 private:
  const std::shared_ptr<const Dataset> steady_;
  mutable std::atomic<int> asked_ = 0;
};

class UnsteadyStage final : public runner::Stage {
 public:
  explicit UnsteadyStage(std::unique_ptr<Stage> steady) : steady_(std::move(steady)) {}
  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    auto outputs = steady_->run(inputs, context);
    outputs["train"] = std::make_shared<UnsteadyDataset>(
        std::static_pointer_cast<const stages::Dataset>(outputs.at("train")));
    return outputs;
  }

 private:
  const std::unique_ptr<Stage> steady_;
};

runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
  auto steady = stages::kDataImageFolder.create(reader);
  if (!steady) return steady;
  return std::unique_ptr<runner::Stage>(std::make_unique<UnsteadyStage>(*std::move(steady)));
}

const runner::StageKind kUnsteady{stages::kDataImageFolder.name, create};

}  // namespace

int main() {
  std::vector<const runner::StageKind*> kinds(stages::all_kinds().begin(),
                                              stages::all_kinds().end());
  for (const runner::StageKind*& kind : kinds) {
    if (kind->name == kUnsteady.name) kind = &kUnsteady;
  }
  stages::WorkerSignals signals;
  return static_cast<int>(
      stages::Worker(STDIN_FILENO, 3, kinds, stages::all_requests(), signals).serve());
}
