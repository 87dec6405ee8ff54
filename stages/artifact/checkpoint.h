#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runner/stage/artifact.h"
#include "stages/artifact/model.h"
#include "stages/numerics/numerics.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Trained weights, and how to run them.
class Checkpoint : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kCheckpoint;
  runner::ArtifactType type() const final { return kType; }
  runner::HeldMemory held() const final;

  std::shared_ptr<torch::nn::Module> network;  ///< in eval mode, on the run's device; its values never change again
  std::shared_ptr<const Model> model;
  std::string model_stage;   ///< the stage that the model comes from, as memory.precision names it
  NumericsOptions numerics;  ///< of its training; a prediction computes so too
  std::vector<std::string> classes;
  std::int64_t pair_of = 0;          ///< as of DatasetDescription: above 0, one logit tells two classes apart
  std::vector<TensorSpec> inputs;    ///< of the samples it was trained on
  std::string transform;             ///< of its training data
  std::int64_t epoch = 0, step = 0;  ///< when the weights were taken
  std::filesystem::path file;        ///< the safetensors file
  std::string weights;  ///< "averaged" or "trained", where an earlier training kept an average of its weights
};

}  // namespace stages
