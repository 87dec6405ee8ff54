#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/listening_network.h"
#include "tests/support/number_rows.h"
#include "tests/support/on_test_device.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"

namespace stages {

/// Evaluates a network that returns the first two values of a sample as logits.
class Classification : public testing::Test {
 protected:
  /// Runs a ListeningNetwork on the first two values of the "image".
  class ListeningModel final : public Model {
   public:
    std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                             std::uint64_t) const override {
      return std::make_shared<ListeningNetwork>();
    }
    std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
      return build(data, 0);
    }
    NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
      tf32.push_back(at::globalContext().allowTF32CuBLAS());
      return {{"logits", dynamic_cast<ListeningNetwork&>(network).forward(
                             inputs.at("image").slice(1, 0, 2))}};
    }
    bool mixes_samples() const override { return false; }

    mutable std::vector<bool> tf32;
  };

  static inline const std::vector<std::string> kFlowers = {"daisy", "rose", "tulip"};

  static at::Tensor four_samples() {
    return torch::tensor({{3.0, 0.0, 0.0}, {0.0, 3.0, 0.0}, {0.0, 3.0, 0.0}, {0.0, 0.0, 3.0}},
                         at::kFloat);
  }

  static std::shared_ptr<NumberRows> flowers() {
    return std::make_shared<NumberRows>(four_samples(), std::vector<std::int64_t>{0, 1, 2, 2},
                                        kFlowers);
  }

  static std::string contents(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Classification() {
    const auto network = echo_->build({}, 0);
    network->train();
    checkpoint_->network = network;
    checkpoint_->model = echo_;
    checkpoint_->classes = kFlowers;
    checkpoint_->epoch = 2;
    checkpoint_->step = 40;
  }

  runner::Outputs run(const std::shared_ptr<const Dataset>& test,
                      const std::string& options = "{}") {
    const auto stage = created(kEvaluateClassification, options);
    EXPECT_TRUE(stage);
    runner::Inputs::ByPort ports = {{"test", {test}}, {"checkpoint", {checkpoint_}}};
    if (memory_) ports["memory"] = {memory_};
    return (*stage)->run(runner::Inputs(std::move(ports)), context_);
  }

  /// Returns the plan for a budget.
  runner::MemoryPlan plan(const std::shared_ptr<const Dataset>& test, std::int64_t batch_size,
                          std::int64_t budget) {
    const auto stage =
        created(kEvaluateClassification, R"({"batch_size": )" + std::to_string(batch_size) + "}");
    PlanningContext planning;
    runner::Inputs::ByPort inputs = {{"test", {test}}, {"checkpoint", {checkpoint_}}};
    if (memory_) inputs["memory"] = {memory_};
    planning.asked.budget = {"a test", budget};
    (*stage)->plan(runner::Inputs(inputs), planning);
    return planning.planned.value();
  }

  /// Returns "E0606 message | help" for the error that the run throws.
  runner::Diagnostics refusal(const std::shared_ptr<const Dataset>& test,
                              const std::string& options = "{}") {
    return refusals_of([&] { run(test, options); });
  }

  const std::shared_ptr<EchoModel> echo_ = std::make_shared<EchoModel>();
  const std::shared_ptr<Checkpoint> checkpoint_ = std::make_shared<Checkpoint>();
  std::shared_ptr<MemoryPolicy> memory_;
  RecordingContext context_;
};

}  // namespace stages
