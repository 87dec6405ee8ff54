#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runner/shared/stage/artifact.h"
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

  /// In eval mode, on the run's device; its values never change again. Null where its training has let it go.
  std::shared_ptr<torch::nn::Module> network;
  /// Where it was let go, another such network, made and read from `file`. Throws runner::StageError.
  std::function<std::shared_ptr<torch::nn::Module>()> load = {};
  /// `network`, or a loaded one that is the caller's.
  std::shared_ptr<torch::nn::Module> opened() const { return network ? network : load(); }
  std::shared_ptr<const Model> model;
  std::string model_stage;   ///< the stage that the model comes from, as memory.precision names it
  NumericsOptions numerics;  ///< of its training; a prediction computes so too
  std::vector<std::string> classes;
  std::vector<std::string> class_words;      ///< what texts call them
  std::int64_t pair_of = 0;                  ///< as of DatasetDescription: above 0, one logit tells two classes apart
  std::vector<TensorSpec> inputs;            ///< of the samples it was trained on
  std::string transform;                     ///< of its training data
  std::int64_t epoch = 0, step = 0;          ///< when the weights were taken
  std::filesystem::path file;                ///< the safetensors file
  std::map<std::string, double> validation;  ///< how good it was on the validation data, by name; empty: not measured
  std::string weights;  ///< "averaged" or "trained", where an earlier training kept an average of its weights
};

}  // namespace stages
