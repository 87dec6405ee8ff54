#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/parse_json.h"
#include "runner/shared/value/value.h"
#include "stages/artifact/model.h"
#include "stages/model/hosted_network.h"
#include "stages/model/lora_targets.h"
#include "stages/model/named_blocks.h"
#include "stages/model/tower_tokenizer.h"
#include "stages/model/two_towers.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct PythonModelConfig {
  std::string pointer;  ///< location in the recipe
  std::string entry;    ///< "timm:create_model", "my_net.py:make"
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  nlohmann::ordered_json shown_arguments = nlohmann::ordered_json::object();  ///< without secrets
  std::optional<std::string> class_argument;  ///< the argument that receives the number of classes
  std::string input;                          ///< the sample tensor that the network receives
  std::optional<std::vector<std::string>> blocks;  ///< patterns; nullopt: blocks are found by their
                                                   ///< types
  std::optional<LoraOptions> lora;
  std::optional<std::string> adapter;  ///< folder of an adapter to start from
  std::optional<TowerOptions> towers;  ///< nullopt: the network receives one tensor
};

HostedNetwork& as_python(torch::nn::Module& network) {
  auto* python = dynamic_cast<HostedNetwork*>(&network);
  if (!python) throw std::logic_error("not a network made by PythonModel::build()");
  return *python;
}

nlohmann::ordered_json build_request(const PythonModelConfig& config, const char* device,
                                     std::uint64_t seed, std::int64_t classes) {
  nlohmann::ordered_json request = {
      {"entry", config.entry}, {"arguments", config.arguments}, {"device", device}, {"seed", seed}};
  if (config.class_argument) {
    request["arguments"][*config.class_argument] = classes;
    request["classes"] = classes;
    request["class_argument"] = *config.class_argument;
  }
  if (config.towers && config.towers->class_head) request["classes"] = classes;
  if (config.blocks) request["blocks"] = *config.blocks;
  return request;
}

std::shared_ptr<HostedNetwork> network_for(const PythonModelConfig& config,
                                           const nlohmann::ordered_json& request, bool draws,
                                           nlohmann::ordered_json description) {
  if (!config.towers)
    return std::make_shared<HostedNetwork>(request, draws, std::move(description));
  return std::make_shared<TwoTowers>(request, draws, std::move(description), *config.towers);
}

/// Rejects adapters if the class head would keep its initial values.
void check_head_is_trained(const torch::nn::Module& network, const std::string& head) {
  bool is_module = false;
  for (const auto& item : network.named_parameters()) {
    if (item.key() != head && !item.key().starts_with(head + ".")) continue;
    if (item.value().requires_grad()) return;
    is_module = true;
  }
  if (!is_module) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "the class head '" + head + "' would keep its initial values, since adapters " +
                       "freeze the network's own weights")
      .at("/modules_to_save")
      .with_help("add it to modules_to_save");
}

PythonNetwork::Draws draws_of(const HostedNetwork& network, const TowerTokenizer* tokenizer,
                              const std::vector<std::int64_t>& shape, const char* device) {
  return network.find_draws(shape, tokenizer ? tokenizer->length() : 0, device);
}

/// The properties of a network that are known before it is created for its data.
struct PythonTraits {
  std::string mixing_layer, lone_mixing_layer;  ///< as in PythonNetwork
  PythonNetwork::Draws draws;
};

class PythonModel : public Model {
 public:
  /// `tokenizer` is for the towers; it may be null if there are none.
  PythonModel(PythonModelConfig config, PythonTraits traits,
              std::shared_ptr<const TowerTokenizer> tokenizer)
      : config_(std::move(config)),
        tokenizer_(std::move(tokenizer)),
        mixing_layer_(std::move(traits.mixing_layer)),
        lone_mixing_layer_(std::move(traits.lone_mixing_layer)),
        draws_(std::move(traits.draws)) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    return make(data, "cpu", seed);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return make(data, "meta", 0);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    HostedNetwork& hosted = as_python(network);
    auto* const towers = dynamic_cast<TwoTowers*>(&hosted);
    NamedTensors outputs = [&] {
      try {
        return towers ? towers->embed(inputs) : hosted.forward(inputs.at(config_.input));
      } catch (StageError& error) {
        if (!error.stage.empty()) throw;
        throw std::move(error).at("/entry").in_stage(config_.pointer);
      }
    }();
    if (towers && !towers->has_run()) return outputs;
    try {
      hosted.check_adapters();
    } catch (StageError& error) {
      throw std::move(error).in_stage(config_.pointer + "/adapters");
    }
    return outputs;
  }
  /// Also true if the network draws random numbers on its own: like the statistics of BatchNorm,
  /// they depend on how a batch is split.
  bool mixes_samples() const override { return !mixing_layer_.empty() || !draws_.places.empty(); }
  /// CORN needs no special last layer, so the network's own last layer is used.
  bool has_ordinal_head(OrdinalHead head) const override { return head == OrdinalHead::kCorn; }
  std::string why_mixed() const override {
    if (!mixing_layer_.empty() && lone_mixing_layer_.empty() && draws_.places.empty())
      return "the network's layer " + mixing_layer_ + " mixes the samples of a batch";
    return lone_mixing_layer_.empty()
               ? "the network draws random numbers on its own: " + drawing_places()
               : "the network's layer " + lone_mixing_layer_ +
                     " mixes the samples of a batch on its own";
  }
  bool mixes_over_ranks() const override {
    return lone_mixing_layer_.empty() && draws_.places.empty();
  }
  std::vector<std::string> notes(const torch::nn::Module& network) const override {
    std::int64_t weights = 0;
    for (const at::Tensor& parameter : network.parameters()) weights += parameter.numel();
    std::vector<std::string> lines = {"created in Python by " + config_.entry + ": " +
                                      std::to_string(weights) + " weights"};
    if (!draws_.places.empty()) {
      lines.push_back(
          "the network draws random numbers on its own, from torch's generator, which each step "
          "seeds: " +
          drawing_places() + "; a split batch would draw different numbers");
    }
    if (const auto* hosted = dynamic_cast<const HostedNetwork*>(&network); hosted && hosted->lora())
      add_notes(*hosted->lora(), network, lines);
    lines.insert(lines.end(), adapter_notes_.begin(), adapter_notes_.end());
    return lines;
  }

 protected:
  const PythonModelConfig config_;
  const std::shared_ptr<const TowerTokenizer> tokenizer_;

  /// The number of tokens for which the text tower has embeddings; nullopt if it is unknown.
  std::optional<std::int64_t> known_tokens() const { return draws_.token_rows; }

 private:
  std::string drawing_places() const {
    constexpr std::size_t kShownPlaces = 3;
    return runner::listed(draws_.places, kShownPlaces, "");
  }

  static void add_notes(const AttachedLora& lora, const torch::nn::Module& network,
                        std::vector<std::string>& lines) {
    lines.push_back(trainable_line(network));
    if (!lora.unused_targets.empty())
      lines.push_back("targets that match no layer: " +
                      runner::listed(lora.unused_targets, 10, "'"));
    if (!lora.unused_patterns.empty())
      lines.push_back("patterns that match no layer with an adapter: " +
                      runner::listed(lora.unused_patterns, 10, "'"));
    if (lora.options.modules_to_save.empty())
      lines.emplace_back(
          "only adapters are trained; to train a new head too, list it in modules_to_save");
  }

  std::shared_ptr<torch::nn::Module> make(const DatasetDescription& data, const char* device,
                                          std::uint64_t seed) const {
    const auto input = std::ranges::find(data.tensors, config_.input, &TensorSpec::name);
    if (input == data.tensors.end()) {
      throw StageError(ErrorCode::kOptionConflict,
                       "the data's samples have no tensor '" + config_.input + "'")
          .at("/input")
          .in_stage(config_.pointer)
          .with_help("set input to one of the samples' tensors, such as image");
    }
    try {
      find_draws(device, seed, data, input->shape);
      if (draws_.token_rows) tokenizer_->check(*draws_.token_rows);
      auto network = network_for(config_, request(device, seed, data), !draws_.places.empty(),
                                 description(data));
      if (config_.blocks)
        check_blocks(*network, *config_.blocks, draws_.own_modules, config_.pointer);
      check_pixels_of(network->pretrained(), data, *input);
      if (config_.lora) attach(*network, seed);
      return network;
    } catch (StageError& error) {
      if (!error.stage.empty()) throw;
      throw std::move(error).at("/entry").in_stage(config_.pointer);
    }
  }

  /// Finds out where the network draws random numbers, unless that is already known. Networks for
  /// which this requires real values are run once with real values.
  void find_draws(const char* device, std::uint64_t seed, const DatasetDescription& data,
                  const std::vector<std::int64_t>& shape) const {
    const bool is_real = std::string_view(device) != "meta";
    if (draws_.is_known || (is_real && was_run_for_draws_)) return;
    was_run_for_draws_ |= is_real;
    draws_ = draws_of(*network_for(config_, request(device, seed, data), false, {}),
                      tokenizer_.get(), shape, device);
  }

  nlohmann::ordered_json request(const char* device, std::uint64_t seed,
                                 const DatasetDescription& data) const {
    auto request = build_request(config_, device, seed, logits_for(data));
    request["own_modules"] = draws_.own_modules;
    request["dropout_calls"] = nlohmann::ordered_json::array();
    for (const auto& [path, number, probability] : draws_.dropout_calls)
      request["dropout_calls"].push_back(
          {{"path", path}, {"number", number}, {"probability", probability}});
    return request;
  }

  nlohmann::ordered_json description(const DatasetDescription& data) const {
    nlohmann::ordered_json arguments = config_.shown_arguments;
    if (config_.class_argument) arguments[*config_.class_argument] = logits_for(data);
    return {{"entry", config_.entry}, {"arguments", std::move(arguments)}};
  }

  /// Rejects data if its pixels are prepared differently from those that the pretrained weights
  /// were trained on.
  void check_pixels_of(const nlohmann::ordered_json& pretrained, const DatasetDescription& data,
                       const TensorSpec& input) const {
    if (pretrained.is_null()) return;
    const auto refuse_pixels = [&](const std::string& theirs, const std::string& ours,
                                   const std::string& help) {
      throw StageError(ErrorCode::kOptionConflict, "the pretrained weights were trained on " +
                                                       theirs + ", but the data has " + ours)
          .at("/arguments")
          .in_stage(config_.pointer)
          .with_help(help);
    };
    const std::vector<std::int64_t> shape = pretrained.at("input_size");
    if (pretrained.at("fixed") && shape != input.shape) {
      refuse_pixels("images of shape " + pretrained.at("input_size").dump() + " only",
                    nlohmann::json(input.shape).dump(),
                    "set data.image_size=" + std::to_string(shape.back()) +
                        ", or an argument of the network that changes its size, such as img_size");
    }
    const auto transform = runner::parse_json<nlohmann::ordered_json>(data.transform);
    if (!transform.is_object() || !transform.contains("normalize")) return;
    for (const char* key : {"mean", "std"}) {
      const std::vector<double> theirs = pretrained.at(key), ours = transform["normalize"].at(key);
      if (std::ranges::equal(theirs, ours,
                             [](double a, double b) { return std::abs(a - b) < 1e-3; }))
        continue;
      refuse_pixels("pixels with the " + std::string(key) + ' ' + pretrained.at(key).dump(),
                    transform["normalize"].at(key).dump(),
                    "set data.normalize: {mean: " + pretrained.at("mean").dump() +
                        ", std: " + pretrained.at("std").dump() + "}");
    }
  }

  void attach(HostedNetwork& network, std::uint64_t seed) const {
    try {
      network.attach(*config_.lora, seed);
      if (config_.towers && config_.towers->class_head)
        check_head_is_trained(network, *config_.towers->class_head);
      if (config_.adapter) adapter_notes_ = network.begin_from_adapter(*config_.adapter);
    } catch (StageError& error) {
      throw std::move(error).in_stage(config_.pointer + "/adapters");
    }
  }

  const std::string mixing_layer_, lone_mixing_layer_;
  mutable PythonNetwork::Draws draws_;  // until known, each outline tries to find them
  mutable bool was_run_for_draws_ = false;
  mutable std::vector<std::string> adapter_notes_;  // for the most recently created network
};

/// A network that embeds images and texts.
class PythonTextModel final : public PythonModel, public ImageTextModel {
 public:
  using PythonModel::PythonModel;

  TokenizedTexts tokenized(const std::vector<std::string>& texts) const override {
    return tokenizer_->tokenized(texts, known_tokens());
  }
  bool has_class_head() const override { return config_.towers->class_head.has_value(); }
  void constrain(torch::nn::Module& network) const override {
    at::Tensor scale = dynamic_cast<TwoTowers&>(network).logit_scale().detach();
    const std::optional<double>& most = config_.towers->maximum_logit_scale;
    if (most && !scale.is_meta()) scale.clamp_max_(*most);
  }
};

class PythonStage final : public runner::Stage {
 public:
  explicit PythonStage(PythonModelConfig config) : config_(std::move(config)) {}

  std::string fingerprint() const override {
    std::string all = config_.adapter ? runner::digest_below(*config_.adapter) : "";
    if (!config_.towers) return all;
    const TokenizerOptions& files = config_.towers->tokenizer;
    for (const auto& file : {files.merges, files.vocabulary})
      if (file) all += runner::digest_below(*file);
    return all;
  }
  bool uses_seed() const override { return false; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    const std::shared_ptr<const TowerTokenizer> tokenizer = made_tokenizer(context);
    try {
      const auto probe =
          network_for(config_, build_request(config_, "meta", 0, /*classes=*/2), false, {});
      const bool has_images = config_.input == "image";
      PythonTraits traits{
          probe->mixing_layer(), probe->lone_mixing_layer(),
          has_images ? draws_of(*probe, tokenizer.get(), {}, "meta") : PythonNetwork::Draws()};
      if (!tokenizer)
        return {{"model", std::make_shared<PythonModel>(config_, std::move(traits), nullptr)}};
      return {{"model", std::make_shared<PythonTextModel>(config_, std::move(traits), tokenizer)}};
    } catch (StageError& error) {
      if (!error.stage.empty()) throw;
      throw std::move(error).at("/entry").in_stage(config_.pointer);
    }
  }

 private:
  /// Returns the tokenizer; null if the network does not take text as input.
  std::shared_ptr<const TowerTokenizer> made_tokenizer(runner::RunContext& context) const {
    if (!config_.towers) return nullptr;
    auto tokenizer = std::make_shared<const TowerTokenizer>(*config_.towers);
    if (const std::string note = tokenizer->note(); !note.empty()) context.say(note);
    return tokenizer;
  }

  const PythonModelConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_python(runner::ConfigReader& reader) {
  PythonModelConfig config;
  config.pointer = reader.pointer();
  reader.read("entry", config.entry);
  reader.read("class_argument", config.class_argument);
  reader.read("input", config.input);
  reader.read("blocks", config.blocks);
  if (const runner::Value* const arguments = reader.raw("arguments")) {
    config.arguments = nlohmann::ordered_json(runner::to_json(*arguments, /*hide_secrets=*/false));
    config.shown_arguments =
        nlohmann::ordered_json(runner::to_json(*arguments, /*hide_secrets=*/true));
  }
  const runner::Value* const adapters = reader.raw("adapters");
  if (adapters && !adapters->is_null()) {
    runner::ConfigReader& section = reader.section("adapters");
    config.lora = read_lora_options(section);
    section.read("adapter", config.adapter);
    // The adapter overwrites whatever values the initialization produces.
    if (config.adapter) config.lora->initialization = LoraInitialization::kKaiming;
  }
  const runner::Value* const towers = reader.raw("towers");
  if (towers && !towers->is_null()) {
    config.towers = read_tower_options(reader.section("towers"));
    if (!config.towers->class_head) config.class_argument.reset();
    config.input = "image";
  }
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<PythonStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kModelPython = {"model.python", create_python};

}  // namespace stages
