#include "stages/numerics/activation_checkpointing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "tests/support/listening_network.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

ActivationCheckpointing chosen(const ActivationCheckpointing& written,
                               const std::string& name = "model") {
  return activation_checkpointing_for(*tiny_tower(), name, written, "/memory");
}

std::string refusal(const torch::nn::Module& network, const ActivationCheckpointing& written) {
  try {
    activation_checkpointing_for(network, "model", written, "/memory");
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kUnknownKey);
    return error.stage + error.option + ": " + error.what() + "; " + error.help;
  }
  return "";
}

std::string refusal(std::vector<std::string> modules) {
  return refusal(*tiny_tower(), {.modules = std::move(modules)});
}

TEST(ActivationCheckpointing, NamesAreTakenOutOfTheNameOfTheStage) {
  EXPECT_EQ(chosen({}), ActivationCheckpointing{});
  EXPECT_EQ(chosen({.blocks = true}), ActivationCheckpointing{.blocks = true});
  EXPECT_EQ(chosen({.modules = {"model.vision_model.encoder.layers.0",
                                "*.vision_model.encoder.layers.*.mlp"}}),
            (ActivationCheckpointing{.modules = {"vision_model.encoder.layers.0",
                                                 "vision_model.encoder.layers.*.mlp"}}));
  EXPECT_EQ(chosen({.modules = {"tower.vision_model.encoder.layers.1"}}, "tower"),
            ActivationCheckpointing{.modules = {"vision_model.encoder.layers.1"}});
}

TEST(ActivationCheckpointing, UnknownModuleNamesTheNearest) {
  EXPECT_EQ(refusal({"model.vision_model.encoder.layers.0", "model.vision_model.encoder.layer.1"}),
            "/memory/activation_checkpointing/1: 'model.vision_model.encoder.layer.1' names no "
            "module of the network of "
            "'model'; did you mean 'model.vision_model.encoder.layers.1'?");
  EXPECT_EQ(refusal({"model.vision_model.encoder.layers.2"}),
            "/memory/activation_checkpointing/0: 'model.vision_model.encoder.layers.2' names no "
            "module of the network of "
            "'model'; did you mean 'model.vision_model.encoder.layers.0'?");
  EXPECT_EQ(
      refusal({"backbone"}),
      "/memory/activation_checkpointing/0: 'backbone' names no module of the network of 'model'; "
      "name a part by its stage and its path in it, such as 'model.vision_model.encoder.layers.0'");
}

TEST(ActivationCheckpointing, ModuleThatKeepsItsActivationsNamesTheOneAroundIt) {
  EXPECT_EQ(refusal({"model.vision_model.encoder.layers.0.mlp.fc1"}),
            "/memory/activation_checkpointing/0: 'model.vision_model.encoder.layers.0.mlp.fc1' "
            "names nothing that can be recomputed on its own; name "
            "'model.vision_model.encoder.layers.0.mlp', which contains it");
  EXPECT_EQ(refusal({"model.vision_model.encoder.layers.*.layer_norm1"}),
            "/memory/activation_checkpointing/0: 'model.vision_model.encoder.layers.*.layer_norm1' "
            "names nothing that can be recomputed on its own; name "
            "'model.vision_model.encoder.layers.*', which contains it");
  EXPECT_EQ(refusal({"model.head"}),
            "/memory/activation_checkpointing/0: 'model.head' names nothing that can be recomputed "
            "on its own; name a part by its stage and its path in it, such as "
            "'model.vision_model.encoder.layers.0'");
}

TEST(ActivationCheckpointing, ModuleOfBlocksNamesThem) {
  EXPECT_EQ(refusal({"model.vision_model.encoder.layers"}),
            "/memory/activation_checkpointing/0: 'model.vision_model.encoder.layers' names nothing "
            "that can be recomputed on its own; name what is in it, such as "
            "'model.vision_model.encoder.layers.0'");
}

TEST(ActivationCheckpointing, NetworkWithoutSuchParts) {
  EXPECT_EQ(refusal(ListeningNetwork(), {.blocks = true}),
            "/memory/activation_checkpointing: the network of 'model' has no blocks that can be "
            "recomputed; set "
            "activation_checkpointing: none");
  EXPECT_EQ(
      refusal(ListeningNetwork(), {.modules = {"model.head"}}),
      "/memory/activation_checkpointing/0: 'model.head' names nothing that can be recomputed on "
      "its own; set activation_checkpointing: none: no part of this network can be recomputed");
}

TEST(ActivationCheckpointing, RecordSaysAllOfIt) {
  EXPECT_EQ(to_json(ActivationCheckpointing{}), "none");
  EXPECT_EQ(to_json(ActivationCheckpointing{.modules = {"a", "b.*"}}).dump(), R"(["a","b.*"])");
  EXPECT_EQ(to_json(ActivationCheckpointing{.blocks = true}), "block");
}

}  // namespace
}  // namespace stages
