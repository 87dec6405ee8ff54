#include "stages/numerics/activation_checkpointing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/listening_network.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

ActivationCheckpointing chosen(const ActivationCheckpointing& written,
                               const std::string& name = "model") {
  return activation_checkpointing_for(*tiny_tower(), name, written, "/memory");
}

runner::Diagnostics refusal(const torch::nn::Module& network,
                            const ActivationCheckpointing& written) {
  return refusals_of([&] { activation_checkpointing_for(network, "model", written, "/memory"); });
}

runner::Diagnostics refusal(std::vector<std::string> modules) {
  return refusal(*tiny_tower(), {.modules = std::move(modules)});
}

TEST(ActivationCheckpointing, NamesAreRelativeToTheStage) {
  EXPECT_EQ(chosen({}), ActivationCheckpointing{});
  EXPECT_EQ(chosen({.blocks = true}), ActivationCheckpointing{.blocks = true});
  EXPECT_EQ(chosen({.modules = {"model.vision_model.encoder.layers.0",
                                "*.vision_model.encoder.layers.*.mlp"}}),
            (ActivationCheckpointing{.modules = {"vision_model.encoder.layers.0",
                                                 "vision_model.encoder.layers.*.mlp"}}));
  EXPECT_EQ(chosen({.modules = {"tower.vision_model.encoder.layers.1"}}, "tower"),
            ActivationCheckpointing{.modules = {"vision_model.encoder.layers.1"}});
}

TEST(ActivationCheckpointing, UnknownModuleSuggestsTheNearest) {
  EXPECT_REFUSED(
      refusal({"model.vision_model.encoder.layers.0", "model.vision_model.encoder.layer.1"}),
      kUnknownKey, "/memory/activation_checkpointing/1", "'model.vision_model.encoder.layers.1'");
  EXPECT_REFUSED(refusal({"model.vision_model.encoder.layers.2"}), kUnknownKey,
                 "/memory/activation_checkpointing/0", "'model.vision_model.encoder.layers.0'");
  EXPECT_REFUSED(refusal({"backbone"}), kUnknownKey, "/memory/activation_checkpointing/0",
                 "such as 'model.vision_model.encoder.layers.0'");
}

TEST(ActivationCheckpointing, NonRecomputableModuleSuggestsItsParent) {
  EXPECT_REFUSED(refusal({"model.vision_model.encoder.layers.0.mlp.fc1"}), kUnknownKey,
                 "/memory/activation_checkpointing/0",
                 "name 'model.vision_model.encoder.layers.0.mlp'");
  EXPECT_REFUSED(refusal({"model.vision_model.encoder.layers.*.layer_norm1"}), kUnknownKey,
                 "/memory/activation_checkpointing/0",
                 "name 'model.vision_model.encoder.layers.*'");
  EXPECT_REFUSED(refusal({"model.head"}), kUnknownKey, "/memory/activation_checkpointing/0",
                 "'model.head'", "such as 'model.vision_model.encoder.layers.0'");
}

TEST(ActivationCheckpointing, ModuleOfBlocksSuggestsItsBlocks) {
  EXPECT_REFUSED(refusal({"model.vision_model.encoder.layers"}), kUnknownKey,
                 "/memory/activation_checkpointing/0",
                 "such as 'model.vision_model.encoder.layers.0'");
}

TEST(ActivationCheckpointing, NetworkWithoutRecomputableModulesIsRejected) {
  EXPECT_REFUSED(refusal(ListeningNetwork(), {.blocks = true}), kUnknownKey,
                 "/memory/activation_checkpointing", "no blocks", "activation_checkpointing: none");
  EXPECT_REFUSED(refusal(ListeningNetwork(), {.modules = {"model.head"}}), kUnknownKey,
                 "/memory/activation_checkpointing/0", "activation_checkpointing: none");
}

TEST(ActivationCheckpointing, RecordIsComplete) {
  EXPECT_EQ(to_json(ActivationCheckpointing{}), "none");
  EXPECT_EQ(to_json(ActivationCheckpointing{.modules = {"a", "b.*"}}).dump(), R"(["a","b.*"])");
  EXPECT_EQ(to_json(ActivationCheckpointing{.blocks = true}), "block");
}

}  // namespace
}  // namespace stages
