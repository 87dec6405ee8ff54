#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/python/hosted_module.h"
#include "stages/random/dropout.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// Makes the module for a linear layer (null steps) or convolution of Python, whose weights are
/// registered with it afterwards. It must be a HostedModule.
using MakeHostedLayer =
    std::function<std::shared_ptr<torch::nn::Module>(const nlohmann::ordered_json& steps)>;

/// A network that Python has made, as a tree of modules with Python's names that share its
/// parameters and buffers: what moves, freezes, trains and saves them here does so there. Python
/// computes. Its dropout layers are ours (stages/random/dropout.h); its repeated blocks are
/// RecomputableModules, its linear layers and convolutions what `make_layer` makes.
class PythonNetwork : public torch::nn::Module {
 public:
  /// Has Python make the network that `request` describes (retort_host/networks.py, build). With
  /// `draws`, it draws random numbers by itself: torch's generator is set before each forward pass
  /// in training, from the step and the samples. Throws runner::StageError if Python fails, or if a
  /// parameter is not float32.
  PythonNetwork(const nlohmann::ordered_json& request, bool draws,
                const MakeHostedLayer& make_layer);
  ~PythonNetwork() override;

  void train(bool on = true) override;
  /// What Python's forward returns for `input`: "logits", or its mapping's tensors by their names.
  /// Throws runner::StageError if it fails, returns something else, or draws random numbers other
  /// than by dropout layers, unless it was said to.
  NamedTensors forward(const at::Tensor& input);

  /// The same, and the last feature maps: (n, channels, height, width), undefined if the network
  /// has none.
  std::pair<NamedTensors, at::Tensor> forward_with_maps(const at::Tensor& input);

  /// Sets torch's generators for a forward pass on this device, which a caller of Python's network
  /// does. False if it draws nothing by itself in training, or is not training.
  bool seed_draws(at::Device device) const;
  /// Its number among the networks that Python has made.
  std::int64_t id() const { return id_; }
  /// The paths of the hosted modules that are run from here.
  std::vector<std::string> active() const;
  /// What Python saves of it: its own name, and that of the parameter or buffer here.
  const std::vector<std::pair<std::string, std::string>>& state() const { return state_; }
  /// The pixels that its weights were trained on, {"input_size", "mean", "std", "fixed"}; null:
  /// they are not pretrained, or it does not say.
  const nlohmann::ordered_json& pretrained() const { return *pretrained_; }

  /// A layer that normalises over the samples of a batch in training: "'norm' (BatchNorm2d)";
  /// empty: none does.
  const std::string& mixing_layer() const { return mixing_layer_; }
  /// One that does so by itself and not by torch's batch_norm, so that it cannot see the samples of
  /// several ranks; empty: none.
  const std::string& lone_mixing_layer() const { return lone_mixing_layer_; }

  /// What a forward pass in training draws at random other than by dropout layers of ours.
  struct Draws {
    bool is_known = false;                   ///< the network ran on the Meta device
    std::vector<std::string> places;         ///< "aten::bernoulli_ (my_net.py:12)"
    std::vector<std::string> own_modules;    ///< dropout layers whose input's rows are not samples,
                                             ///< and blocks that do not make one tensor from one
    std::optional<std::int64_t> token_rows;  ///< of the embedding of a text tower's tokens
  };
  /// Runs it on `device`, where it must be, "meta" or "cpu"; `shape` is that of a sample, empty:
  /// images of common sizes are tried; `tokens` are those of a text, 0: it has no towers. Changes
  /// its buffers. Throws runner::StageError if it draws from a generator that is not torch's.
  Draws find_draws(const std::vector<std::int64_t>& shape, std::int64_t tokens,
                   const char* device) const;

 protected:
  /// What Python has found of the towers that the request names; null: it names none.
  const nlohmann::ordered_json& towers() const { return *towers_; }
  /// What the "image" tower or the "text" tower returns for its input. Throws as forward().
  at::Tensor run_tower(const std::string& tower, const at::Tensor& input);

 private:
  friend at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path);
  friend at::Tensor run_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                                   std::int64_t call);
  struct DropoutLayer {
    std::shared_ptr<Dropout> dropout;
    bool of_channels = false;
  };

  void add_hosted(const std::string& path, std::shared_ptr<torch::nn::Module> module);
  void add_dropouts(const nlohmann::ordered_json& made);
  void add_tensors(const nlohmann::ordered_json& made);
  std::pair<NamedTensors, at::Tensor> run_forward(const at::Tensor& input, bool wants_maps,
                                                  const std::string& tower = "");

  const std::int64_t id_;
  std::string mixing_layer_, lone_mixing_layer_;
  std::vector<std::pair<std::string, std::string>> state_;
  std::shared_ptr<const nlohmann::ordered_json> pretrained_, towers_;
  std::map<std::string, DropoutLayer, std::less<>> dropouts_;
  std::vector<std::pair<std::string, HostedModule*>> hosted_;  // of the tree
  std::shared_ptr<Dropout> draws_;  // names the step and the samples; null: nothing is drawn
};

/// The operator retort::dropout: the dropout layer at `path` of the network `id`, for rows of one
/// sample or of several pieces of each.
at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path);

/// The operator retort::run: the hosted module at `path` of the network `id`; `call` numbers what
/// Python keeps of the call.
at::Tensor run_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                          std::int64_t call);

}  // namespace stages
