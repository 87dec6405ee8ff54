// The kind model.python with a Python simulated by this test; tests/end_to_end/ uses real ones.

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/model.h"
#include "stages/model/hosted_network.h"
#include "stages/python/python_host.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

at::ScalarType weight_type = at::kFloat;

/// Simulates a Python with a network that is one linear layer with three inputs, `fc`.
int play(const char* text) {
  const Json request = Json::parse(text);
  Json reply = Json::object();
  if (request["do"] == "build") {
    const at::TensorOptions options =
        at::TensorOptions(weight_type).device(at::Device(request["device"].get<std::string>()));
    const std::int64_t classes = request["arguments"].value("num_classes", 2);
    give_to_python("parameter:fc.weight", torch::zeros({classes, 3}, options));
    reply = {{"modules", {"fc"}},
             {"parameters", {"fc.weight"}},
             {"buffers", Json::array()},
             {"dropouts", Json::array()},
             {"blocks", Json::array()},
             {"layers", {{"fc", Json::object()}}},
             {"state", {{"fc.weight", "fc.weight"}}},
             {"pretrained", nullptr},
             {"mixing_layer", nullptr},
             {"lone_mixing_layer", nullptr},
             {"towers", nullptr},
             {"class", {{"name", "Net"}, {"module", "nets"}}}};
  } else if (request["do"] == "probe") {
    reply = {{"draws", Json::array()},
             {"dropout_calls", Json::array()},
             {"own_modules", Json::array()},
             {"token_rows", nullptr}};
  }
  reply_to_python_call(reply.dump().c_str());
  return 0;
}

class HostedPython : public testing::Test {
 protected:
  void SetUp() override {
    weight_type = at::kFloat;
    set_python(play);
  }
  void TearDown() override { set_python(nullptr); }

  static std::shared_ptr<const Model> model(const Json& more = Json::object()) {
    Json options = {{"entry", "nets:make"}, {"input", "row"}};
    options.update(more);
    return model_of(kModelPython, options);
  }
  static DatasetDescription rows() {
    return {.size = 4,
            .tensors = {{"row", {3}, at::kFloat}, {"label", {}, at::kLong}},
            .classes = {"a", "b", "c", "d"}};
  }
  static std::vector<std::string> trained(const torch::nn::Module& network) {
    std::vector<std::string> names;
    for (const auto& item : network.named_parameters()) {
      if (item.value().requires_grad()) names.push_back(item.key());
    }
    return names;
  }
};

TEST_F(HostedPython, NetworkHasThePythonWeightsAndTheClassesOfTheData) {
  const auto network = model()->build(rows(), 1);
  EXPECT_THAT(network->named_parameters()["fc.weight"].sizes().vec(), ElementsAre(4, 3));
  EXPECT_TRUE(model()->outline(rows())->parameters().front().is_meta());
  EXPECT_FALSE(model()->mixes_samples());
}

TEST_F(HostedPython, DataWithoutTheInputIsRejected) {
  DatasetDescription other = rows();
  other.tensors.front().name = "image";
  EXPECT_REFUSED(refusals_of([&] { model()->outline(other); }), kOptionConflict, "/model/input",
                 "no tensor 'row'");
}

TEST_F(HostedPython, HalfPrecisionParameterIsRejected) {
  weight_type = at::kHalf;
  EXPECT_REFUSED(refusals_of([] { model(); }), kStageFailed, "/model/entry",
                 "'fc.weight' is Half, not float32");
}

TEST_F(HostedPython, OnlyAdaptersAreTrained) {
  const Json adapters = {{"adapters", {{"targets", {"fc"}}, {"rank", 2}}}};
  const auto network = model(adapters)->build(rows(), 1);
  EXPECT_THAT(trained(*network), ElementsAre("fc.lora_A.weight", "fc.lora_B.weight"));
  const Json none = {{"adapters", {{"targets", {"head"}}}}};
  EXPECT_REFUSED(refusals_of([&] { model(none)->outline(rows()); }), kOptionConflict,
                 "/model/adapters/targets", "no layer is called 'head'");
}

Json adapters_of_fc(std::int64_t rank, const Json& folder = nullptr) {
  return {{"adapters", {{"targets", {"fc"}}, {"rank", rank}, {"adapter", folder}}}};
}

TEST_F(HostedPython, AdapterIsSavedForPeftAndLoadedAgain) {
  const TemporaryFolder folder;
  const auto trained = model(adapters_of_fc(2))->build(rows(), 1);
  trained->named_parameters()["fc.lora_B.weight"].data().fill_(0.25);
  dynamic_cast<HostedNetwork&>(*trained).save_adapter_to(folder / "adapter");
  const NamedTensors saved = read_safetensors(folder / "adapter/adapter_model.safetensors").tensors;
  EXPECT_EQ(saved.size(), 2u);
  EXPECT_THAT(saved.at("base_model.model.fc.lora_A.weight").sizes().vec(), ElementsAre(2, 3));
  EXPECT_THAT(saved.at("base_model.model.fc.lora_B.weight").sizes().vec(), ElementsAre(4, 2));
  const Json config = Json::parse(folder.read("adapter/adapter_config.json"));
  EXPECT_EQ(config.at("peft_type"), "LORA");
  EXPECT_EQ(config.at("target_modules"), Json({"fc"}));
  EXPECT_EQ(config.at("auto_mapping"),
            (Json{{"base_model_class", "Net"}, {"parent_library", "nets"}}));

  const auto next = model(adapters_of_fc(2, (folder / "adapter").string()));
  const auto network = next->build(rows(), /*seed=*/7);
  for (const char* const name : {"fc.lora_A.weight", "fc.lora_B.weight"})
    EXPECT_TRUE(at::equal(network->named_parameters()[name], trained->named_parameters()[name]))
        << name;
  EXPECT_THAT(next->notes(*network), testing::Contains(testing::StartsWith("starts from the "
                                                                           "adapter in ")));
}

TEST_F(HostedPython, AdapterThatDoesNotFitIsRejectedDuringPlanning) {
  const TemporaryFolder folder;
  const auto trained = model(adapters_of_fc(2))->build(rows(), 1);
  dynamic_cast<HostedNetwork&>(*trained).save_adapter_to(folder / "adapter");
  const std::string place = (folder / "adapter").string();
  EXPECT_REFUSED(refusals_of([&] { model(adapters_of_fc(3, place))->outline(rows()); }),
                 kDamagedWeights, "/model/adapters/adapter", "'fc' has rank 2 and scaling");
  EXPECT_REFUSED(refusals_of([&] { model(adapters_of_fc(2, place + "x"))->outline(rows()); }),
                 kMissingWeights, "/model/adapters/adapter", "contains no adapter");
}

}  // namespace
}  // namespace stages
