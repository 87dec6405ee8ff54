// Adapter folders of peft on recorded models: outputs, merging, errors, and training for a few
// steps.

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/train/optimizer.h"
#include "tests/parity/recorded_clip.h"
#include "tests/parity/recorded_tower.h"
#include "tests/support/shared_data.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace stages;
namespace fs = std::filesystem;

constexpr const char* kPrefix = "base_model.model.";
constexpr double kRounding = 1e-5;  // of float32 outputs; smaller differences are meaningless

/// The recorded model that a case's adapter is for: next to the case's folder, or next to the
/// checkout.
RecordedCase base_of(const RecordedCase& recorded) {
  const std::string name = recorded.json.at("base");
  fs::path folder = recorded.path.parent_path().parent_path() / "models" / name;
  if (!fs::exists(folder)) folder = shared_data("cases/parity/models/" + name);
  if (folder.empty())
    throw std::runtime_error("the model '" + name + "' of the case does not exist");
  return {folder, json_file(folder / "case.json")};
}

/// A recorded model, loaded into our network. `outputs` computes the final outputs, by their names
/// in the records; those that no part of the network computes come from `part` of `expected`.
struct RecordedNetwork {
  std::shared_ptr<torch::nn::Module> module;
  std::function<RecordedTensors(const Expectation& expected, const std::string& part)> outputs;
  std::optional<RecordedTower> tower = {};  ///< if it is one
  bool has_text = false;                    ///< so all outputs of a CLIP model are computed
};

RecordedNetwork tower_of(const RecordedCase& recorded, at::ScalarType type) {
  const RecordedCase base = base_of(recorded);
  const RecordedTower tower(base, base.path / "model.safetensors", type);
  const auto outputs = [tower](const Expectation& expected,
                               const std::string& part) -> RecordedTensors {
    const torch::NoGradGuard no_graph;
    const ImageClassifier& network = tower.network();
    const at::Tensor last = network.tower().forward(tower.pixels());
    if (tower.family() == "vit" || tower.family() == "timm")
      return {{"logits", network.forward(tower.pixels()).at("logits")}};
    if (tower.family() == "clip_vision")
      return {{"last_hidden_state", last}, {"pooled", network.tower().pool(last)}};
    const at::Tensor features = network.feature(last);
    if (tower.family() != "clip") return {{"image_embeds", features}};
    const at::Tensor embeds = features / features.norm(2, 1, /*keepdim=*/true);
    const at::Tensor scale = tower.saved().at("logit_scale").to(features.scalar_type()).exp();
    return {{"image_embeds", embeds},
            {"logits_per_image", scale * embeds.matmul(expected[part + "text_embeds"].t())}};
  };
  return {tower.shared_network(), outputs, tower};
}

RecordedNetwork clip_of(const RecordedCase& recorded, at::ScalarType type) {
  const RecordedCase base = base_of(recorded);
  const RecordedClip clip(base, base.path / "model.safetensors", type);
  const auto outputs = [clip](const Expectation&, const std::string&) -> RecordedTensors {
    const torch::NoGradGuard no_graph;
    const at::Tensor images = clip.network->embed_images(clip.pixels),
                     texts = clip.network->embed_texts(clip.ids);
    return {{"image_embeds", images},
            {"text_embeds", texts},
            {"logits_per_image", images.matmul(texts.t()) * clip.network->logit_scale().exp()}};
  };
  return {clip.network, outputs, std::nullopt, /*has_text=*/true};
}

bool is_of_clip(const RecordedCase& recorded) {
  return base_of(recorded).json.at("family") == "clip";
}

/// The whole model of a case.
RecordedNetwork whole_of(const RecordedCase& recorded, at::ScalarType type) {
  return is_of_clip(recorded) ? clip_of(recorded, type) : tower_of(recorded, type);
}

/// An adapter of a case, attached to its network with its own or other options.
struct Loaded {
  RecordedNetwork network;
  WeightLayout layout{};
  AttachedLora lora = {};
};

void attach(Loaded& loaded, const SavedAdapter& saved, const LoraOptions& options,
            std::uint64_t seed = 1) {
  loaded.layout = layout_of_adapter(saved, *loaded.network.module);
  loaded.lora = attach_lora(*loaded.network.module, options, module_names(loaded.layout), seed);
}

void expect_near(Expectation& expected, const RecordedTensors& outputs, const std::string& part) {
  for (const auto& [name, tensor] : outputs) expected.expect_near(part + name, tensor);
}

/// The largest difference between any output and the one recorded with the adapter.
double distance(const Expectation& expected, const RecordedTensors& outputs) {
  double largest = 0;
  for (const auto& [name, tensor] : outputs)
    largest = std::max(largest, (expected["adapted." + name] - tensor).abs().max().item<double>());
  return largest;
}

std::string bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string without(std::string text, const std::string& part) {
  const std::size_t at = text.find(part);
  return at == text.npos ? text : text.erase(at, part.size());
}

bool is_of_text(const std::string& name) { return name.find("text_") != name.npos; }

bool has_images(const SavedAdapter& saved) {
  return std::ranges::any_of(saved.tensors,
                             [](const auto& item) { return !is_of_text(item.first); });
}

/// Checks that we train what peft trains, by the names in adapter files.
void expect_trainable(const RecordedCase& recorded, const Loaded& loaded) {
  std::set<std::string> theirs, ours;
  for (std::string name : recorded.json.at("trainable")) {
    name = without(without(name, ".modules_to_save.default"), ".default");
    if (loaded.network.has_text || !is_of_text(name)) theirs.insert(name);
  }
  for (const auto& [name, tensor] : adapter_tensors(loaded.lora, module_names(loaded.layout))) {
    EXPECT_TRUE(tensor.requires_grad()) << name;
    ours.insert(kPrefix + name);
  }
  EXPECT_EQ(ours, theirs);
  std::size_t trained = 0;
  for (const at::Tensor& parameter : loaded.network.module->parameters())
    trained += parameter.requires_grad() ? 1 : 0;
  EXPECT_EQ(trained, ours.size());
}

/// Checks that the adapter is saved byte for byte as it was read, with the same options.
void expect_saved_as_read(const RecordedCase& recorded, const SavedAdapter& saved,
                          const Loaded& loaded) {
  const TemporaryFolder temporary;
  const AdapterBase base =
      loaded.network.has_text ? whole_clip() : base_of_adapter(loaded.lora, loaded.layout, false);
  save_adapter(temporary / "again", loaded.lora, module_names(loaded.layout), base);
  const char* file = "adapter_model.safetensors";
  EXPECT_EQ(bytes(temporary / "again" / file), bytes(recorded.path / "adapter" / file));
  const AdapterConfig again = read_adapter(temporary / "again").config;
  EXPECT_EQ(again.options, saved.config.options);
  if (loaded.network.has_text) EXPECT_EQ(again.base_class, saved.config.base_class);
}

/// The options with the mistake that the records describe; nullopt if the mistake is unknown here.
std::optional<LoraOptions> mistaken(LoraOptions options, const std::string& mistake) {
  if (mistake == "alpha 4") options.alpha = 4;
  else if (mistake == "use_rslora ignored") options.rank_stabilized = false;
  else if (mistake == "r as alpha/sqrt(r)") options.rank_stabilized = true;
  else if (mistake == "alpha_pattern ignored") options.alpha_pattern = {};
  else return std::nullopt;
  return options;
}

/// Checks that a mistake changes the outputs as much as in the library, and so more than any
/// tolerance.
void expect_mistakes_show(const RecordedCase& recorded, const SavedAdapter& saved,
                          const Expectation& expected) {
  for (const auto& [name, size] : recorded.json.at("wrong_variants").items()) {
    const std::optional<LoraOptions> options = mistaken(saved.config.options, name);
    if (!options) continue;
    Loaded loaded{whole_of(recorded, torch::kFloat32)};
    attach(loaded, saved, *options);
    SavedAdapter changed = saved;
    changed.config.options = *options;
    load_adapter(loaded.lora, changed, module_names(loaded.layout));
    const double recorded_size = size.get<double>();
    EXPECT_NEAR(distance(expected, loaded.network.outputs(expected, "adapted.")), recorded_size,
                std::max(0.02 * recorded_size, kRounding))
        << name;
  }
}

/// Compares a case in `network`: its whole model, or the image tower of a CLIP model.
void compare_outputs_of(const RecordedNetwork& network, const RecordedCase& recorded,
                        const SavedAdapter& saved, Expectation& expected) {
  const bool is_whole = network.has_text || !is_of_clip(recorded);
  const bool is_float = expected.type() == torch::kFloat32;
  Loaded loaded{network};
  if (is_float) expect_near(expected, network.outputs(expected, "base."), "base.");
  attach(loaded, saved, saved.config.options);
  load_adapter(loaded.lora, saved, module_names(loaded.layout));
  const RecordedTensors adapted = network.outputs(expected, "adapted.");
  expect_near(expected, adapted, "adapted.");
  expect_trainable(recorded, loaded);
  if (is_float && is_whole) {
    expect_saved_as_read(recorded, saved, loaded);
    expect_mistakes_show(recorded, saved, expected);
  }
  merge_lora(*network.module);
  const RecordedTensors merged = network.outputs(expected, "merged.");
  expect_near(expected, merged, "merged.");
  for (const auto& [name, tensor] : merged) {
    const at::Tensor& before = adapted.at(name);
    const double size = std::max(1.0, before.abs().max().item<double>());
    EXPECT_LE((tensor - before).abs().max().item<double>(), kRounding * size) << name;
  }
}

void compare_outputs_in(at::ScalarType type, const RecordedCase& recorded) {
  SCOPED_TRACE(type == torch::kDouble ? "in float64" : "in float32");
  Expectation expected(safetensors_fixture(recorded.path / "outputs.safetensors"), type);
  const SavedAdapter saved = read_adapter(recorded.path / "adapter");
  compare_outputs_of(whole_of(recorded, type), recorded, saved, expected);
  for (const std::string& name : expected.uncompared())
    EXPECT_TRUE(name.starts_with("f32.base.")) << "nothing was compared with " << name;
  const bool has_tower =
      is_of_clip(recorded) && has_images(saved) && saved.config.options.modules_to_save.empty();
  if (!has_tower) return;
  SCOPED_TRACE("the image tower alone");
  compare_outputs_of(tower_of(recorded, type), recorded, saved, expected);
}

void compare_outputs(const RecordedCase& recorded) {
  compare_outputs_in(torch::kDouble, recorded);
  compare_outputs_in(torch::kFloat32, recorded);
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

void compare_refused(const RecordedCase& recorded) {
  const std::string wanted = recorded.json.at("message_names");
  Loaded loaded{whole_of(recorded, torch::kFloat32)};
  if (wanted == "use_dora") {  // recorded before DoRA was supported
    const SavedAdapter saved = read_adapter(recorded.path / "adapter");
    attach(loaded, saved, saved.config.options);
    load_adapter(loaded.lora, saved, module_names(loaded.layout));
    return;
  }
  try {
    const SavedAdapter saved = read_adapter(recorded.path / "adapter");
    attach(loaded, saved, saved.config.options);
    load_adapter(loaded.lora, saved, module_names(loaded.layout));
    ADD_FAILURE() << "the adapter was accepted";
  } catch (const runner::StageError& error) {
    EXPECT_NE(lower_case(error.what()).find(lower_case(wanted)), std::string::npos) << error.what();
    EXPECT_EQ(error.option, "/adapter");
  }
}

/// The options that training starts with; a deliberate mistake changes them.
struct Training {
  LoraOptions options;
  AdamOptions adam;
};

Training training_of(const RecordedCase& recorded) {
  nlohmann::json adapter = recorded.json.at("adapter");
  adapter["peft_type"] = "LORA";
  const nlohmann::json& adamw = recorded.json.at("adamw");
  AdamOptions adam{.learning_rate = adamw.value("lr", 1e-3), .beta1 = 0.9, .beta2 = 0.999};
  if (adamw.contains("betas")) {
    adam.beta1 = adamw["betas"][0];
    adam.beta2 = adamw["betas"][1];
  }
  adam.epsilon = adamw.value("eps", 1e-8);
  adam.weight_decay = adamw.value("weight_decay", 1e-2);
  adam.decoupled = true;
  return {parse_adapter_config(adapter.dump()).options, adam};
}

/// The results of training.
struct Trained {
  std::vector<double> losses;
  RecordedTensors first_gradients, final;  ///< by the names in adapter files
};

/// The tensors with the prefix `part`, such as "f32.start.", under their names without it.
RecordedTensors part_of(const RecordedTensors& all, const std::string& part) {
  RecordedTensors result;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(part)) result[name.substr(part.size())] = tensor;
  }
  return result;
}

Trained train(const RecordedCase& recorded, const Training& training, at::ScalarType type) {
  const RecordedTensors start =
      part_of(safetensors_fixture(recorded.path / "trajectory.safetensors"), "f32.start.");
  SavedAdapter saved;
  std::vector<NamedTensors::Item> in_adapter;
  RecordedTensors head;  // if it is not in the adapter
  for (const auto& [name, tensor] : start) {
    if (name.starts_with(kPrefix))
      in_adapter.emplace_back(name.substr(std::string(kPrefix).size()), tensor);
    else head[name] = tensor.to(type).requires_grad_();
  }
  saved.tensors = NamedTensors(std::move(in_adapter));
  saved.config.options = training.options;
  Loaded loaded{tower_of(recorded, type)};
  attach(loaded, saved, training.options);
  const ModuleNames names = module_names(loaded.layout);
  load_adapter(loaded.lora, saved, names);
  loaded.network.module->train();

  std::vector<NamedTensors::Item> trained;
  for (const auto& [name, tensor] : adapter_tensors(loaded.lora, names))
    trained.emplace_back(kPrefix + name, tensor);
  for (const auto& [name, tensor] : head) trained.emplace_back(name, tensor);
  const NamedTensors parameters(trained);
  Optimizer optimizer(training.adam, parameters);
  const ImageClassifier& network = loaded.network.tower->network();
  const auto logits = [&](const at::Tensor& pixels) {
    if (head.empty()) return network.forward(pixels).at("logits");
    const at::Tensor feature = network.projected(network.tower().forward(pixels).select(1, 0));
    return torch::linear(feature, head.at("head.weight"), head.at("head.bias"));
  };

  Trained result;
  const std::int64_t size = recorded.json.at("image");
  const std::uint64_t seed = recorded.json.at("seed");
  for (std::uint64_t step = 0; step < recorded.json.at("steps"); ++step) {
    const std::vector<std::int64_t> labels = recorded.json.at("labels").at(step);
    const auto count = static_cast<std::int64_t>(labels.size());
    const at::Tensor pixels =
        2 * hash_uniform(seed, kPixelStream + step, {count, 3, size, size}).to(type);
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(logits(pixels), torch::tensor(labels));
    loss.backward();
    if (step == 0) {
      for (const auto& [name, parameter] : parameters)
        result.first_gradients[name] = parameter.grad().clone();
    }
    optimizer.prepare();
    optimizer.set_rates({Rates{.learning_rate = training.adam.learning_rate, .momentum = {}}});
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  for (const auto& [name, parameter] : parameters) result.final[name] = parameter.detach().clone();
  return result;
}

double distance(const RecordedTensors& a, const RecordedTensors& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a)
    largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  return largest;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b.at(i)));
  return largest;
}

void compare_trajectory_in(at::ScalarType type, const RecordedCase& recorded) {
  const std::string kind = type == torch::kDouble ? "f64" : "f32";
  SCOPED_TRACE(kind);
  const double tolerance = type == torch::kDouble ? 1e-10 : 1e-5;
  const RecordedTensors tensors = safetensors_fixture(recorded.path / "trajectory.safetensors");
  const RecordedTensors gradients = part_of(tensors, kind + ".first_grad."),
                        final = part_of(tensors, kind + ".final.");
  const std::vector<double> losses = recorded.json.at("losses_" + kind);
  const Training training = training_of(recorded);
  const Trained trained = train(recorded, training, type);
  ASSERT_EQ(trained.losses.size(), losses.size());
  ASSERT_EQ(trained.final.size(), final.size());
  EXPECT_LT(distance(losses, trained.losses), tolerance);
  EXPECT_LT(distance(gradients, trained.first_gradients), tolerance);
  EXPECT_LT(distance(final, trained.final), tolerance);
  if (type == torch::kDouble) return;
  for (const auto& [name, sizes] : recorded.json.at("wrong_variants").items()) {
    Training wrong = training;
    if (name == "no_weight_decay") wrong.adam.weight_decay = 0;
    else if (name == "alpha_not_divided_by_r")
      wrong.options.alpha *= static_cast<double>(wrong.options.rank);
    else continue;
    const Trained other = train(recorded, wrong, type);
    const double of_losses = sizes.at("losses"), of_final = sizes.at("final");
    EXPECT_NEAR(distance(losses, other.losses), of_losses, std::max(0.02 * of_losses, kRounding))
        << name;
    EXPECT_NEAR(distance(final, other.final), of_final, std::max(0.02 * of_final, kRounding))
        << name;
  }
}

void compare_trajectory(const RecordedCase& recorded) {
  compare_trajectory_in(torch::kDouble, recorded);
  compare_trajectory_in(torch::kFloat32, recorded);
}

CaseKind kind(const std::string& suite, const std::string& kind,
              void (*compare)(const RecordedCase&)) {
  return {suite,
          [kind](const RecordedCase& recorded) {
            return recorded.json.contains("base") && recorded.json.contains("kind") &&
                   recorded.json["kind"] == kind;
          },
          compare};
}

}  // namespace

std::vector<CaseKind> lora_cases() {
  return {kind("Adapters", "outputs", compare_outputs),
          kind("RefusedAdapters", "refused", compare_refused),
          kind("AdapterTrainings", "trajectory", compare_trajectory)};
}
