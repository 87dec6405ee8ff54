// Two Python towers, with a Python simulated by this test; tests/end_to_end/ uses real ones.

#include "stages/model/two_towers.h"

#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/model.h"
#include "stages/python/python_host.h"
#include "stages/stages.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::Each;

/// What the simulated Python reports about its towers, and what they return.
struct Played {
  Json towers = {
      {"network", "Net"}, {"image", true}, {"text", true}, {"logit_scale", {{"name", "scale"}}}};
  at::Tensor scale = torch::full({1}, 2.5), images = torch::ones({2, 4}),
             texts = torch::ones({3, 4});
  at::Tensor head = {};    ///< the class head's weight (classes, width)
  bool has_layer = false;  ///< the network has a linear layer, `fc`
  Json built = {};         ///< the last request for a network
} played;

int play_towers(const char* text) {
  const Json request = Json::parse(text);
  Json reply = Json::object();
  if (request["do"] == "build") {
    const at::Device device(request["device"].get<std::string>());
    played.built = request;
    give_to_python("parameter:scale", played.scale.to(device));
    Json names = Json::array({"scale"});
    if (played.head.defined()) {
      names.push_back("classify.weight");
      give_to_python("parameter:classify.weight", played.head.to(device));
    }
    Json layers = Json::object();
    if (played.has_layer) {
      layers["fc"] = Json::object();
      names.push_back("fc.weight");
      give_to_python("parameter:fc.weight", torch::zeros({4, 4}).to(device));
    }
    reply = {{"modules", played.has_layer ? Json::array({"fc"}) : Json::array()},
             {"parameters", names},
             {"buffers", Json::array()},
             {"dropouts", Json::array()},
             {"blocks", Json::array()},
             {"layers", layers},
             {"state", Json::object()},
             {"pretrained", nullptr},
             {"mixing_layer", nullptr},
             {"lone_mixing_layer", nullptr},
             {"towers", played.towers},
             {"class", {{"name", "Clip"}, {"module", "nets"}}}};
  } else if (request["do"] == "probe") {
    reply = {{"draws", Json::array()},
             {"dropout_calls", Json::array()},
             {"own_modules", Json::array()},
             {"token_rows", nullptr}};
  } else if (request["do"] == "forward") {
    const std::string tower = request["tower"];
    if (tower == "class_head") {
      give_to_python("output:logits", taken_from_python("input").matmul(played.head.t()));
      reply_to_python_call(Json({{"outputs", {"logits"}}, {"has_maps", false}}).dump().c_str());
      return 0;
    }
    give_to_python("output:" + tower + "_embeddings",
                   tower == "image" ? played.images : played.texts);
    reply = {{"outputs", {tower + "_embeddings"}}, {"has_maps", false}};
  }
  reply_to_python_call(reply.dump().c_str());
  return 0;
}

class HostedTowerPair : public testing::Test {
 protected:
  void SetUp() override {
    played = {};
    set_python(play_towers);
  }
  void TearDown() override { set_python(nullptr); }

  static std::shared_ptr<const Model> model(const Json& towers = Json::object()) {
    return model_of(kModelPython, {{"entry", "nets:make"}, {"towers", towers}});
  }
  static DatasetDescription images() {
    return {.size = 4, .tensors = {{"image", {3, 8, 8}, at::kFloat}}, .classes = {"a", "b"}};
  }
  static NamedTensors embedded(const Model& model) {
    const auto network = model.build(images(), 1);
    return model.forward(*network, {{"image", torch::zeros({2, 3, 8, 8})},
                                    {"tokens", torch::zeros({3, 77}, at::kLong)}});
  }
  static runner::Diagnostics refusal() {
    return refusals_of([] { embedded(*model()); });
  }
};

TEST_F(HostedTowerPair, EmbeddingsAreNormalizedAndTheFactorIsAScalar) {
  const NamedTensors outputs = embedded(*model());
  EXPECT_TRUE(outputs.at("image_embeddings").equal(torch::full({2, 4}, 0.5)));
  EXPECT_TRUE(outputs.at("text_embeddings").equal(torch::full({3, 4}, 0.5)));
  EXPECT_EQ(outputs.at("logit_scale").dim(), 0);
}

TEST_F(HostedTowerPair, FactorIsClampedToItsLimit) {
  const auto limited = model({{"maximum_logit_scale", 2}});
  const auto network = limited->build(images(), 1);
  limited->constrain(*network);
  EXPECT_EQ(network->named_parameters()["scale"].item<double>(), 2);
}

TEST_F(HostedTowerPair, CaptionsArePaddedToTheContextLengthOrTheLongestCaption) {
  const auto lengths = [](const Json& tokenizer) {
    const auto made = model({{"tokenizer", tokenizer}});
    return dynamic_cast<const ImageTextModel&>(*made).tokenized({"one", "two and three"}).lengths;
  };
  EXPECT_THAT(lengths(Json::object()), Each(77));
  EXPECT_THAT(lengths({{"padding", "longest"}}), Each(testing::Lt(77)));
}

TEST_F(HostedTowerPair, InvalidEmbeddingsAreRejected) {
  played.texts = torch::ones({3, 5});
  EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/text", "of width 5");
  played.texts = torch::ones({3});
  EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/text",
                 "embeddings of shape (3) for 3 texts");
  played.images = torch::ones({1, 4});
  EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/image", "(1, 4) for 2 images");
  played.images = torch::ones({2, 4}, at::kLong);
  EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/image", "of type Long");
}

TEST_F(HostedTowerPair, MissingPartsAreRejected) {
  played.towers["text"] = false;
  EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/text",
                 "the network (Net) has no method 'encode_text'");
  played.towers["text"] = true;
  played.towers["logit_scale"] = Json::object();
  EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/logit_scale",
                 "has no parameter 'logit_scale'");
}

TEST_F(HostedTowerPair, ClassHeadClassifiesNormalizedEmbeddings) {
  EXPECT_FALSE(embedded(*model()).contains("logits"));
  played.towers["class_head"] = true;
  played.head = torch::ones({2, 4});
  const auto headed = model({{"class_head", "classify"}});
  EXPECT_TRUE(dynamic_cast<const ImageTextModel&>(*headed).has_class_head());
  EXPECT_TRUE(embedded(*headed).at("logits").equal(torch::full({2, 2}, 2.0)));
  EXPECT_EQ(played.built.at("classes"), 2);
  EXPECT_EQ(played.built.at("arguments").at("num_classes"), 2);
}

TEST_F(HostedTowerPair, InvalidClassHeadIsRejected) {
  const auto headed = [] {
    return refusals_of([] { embedded(*model({{"class_head", "classify"}})); });
  };
  played.towers["class_head"] = false;
  EXPECT_REFUSED(headed(), kOptionConflict, "/model/towers/class_head",
                 "the network (Net) has no module or method 'classify'");
  played.towers["class_head"] = true;
  played.head = torch::ones({4});
  EXPECT_REFUSED(headed(), kOptionConflict, "/model/towers/class_head",
                 "'classify' returned logits of shape (2) and type Float");
}

TEST_F(HostedTowerPair, AdaptersMustTrainTheClassHead) {
  played.towers["class_head"] = true;
  played.head = torch::ones({2, 4});
  played.has_layer = true;
  const Json adapters = {{"targets", {"fc"}}, {"rank", 2}};
  const auto made = [&](const Json& saved) {
    Json options = {
        {"entry", "nets:make"}, {"towers", {{"class_head", "classify"}}}, {"adapters", adapters}};
    options["adapters"]["modules_to_save"] = saved;
    return refusals_of([&] { model_of(kModelPython, options)->build(images(), 1); });
  };
  EXPECT_REFUSED(made(Json::array()), kOptionConflict, "/model/adapters/modules_to_save",
                 "the class head 'classify' would keep its initial values");
  EXPECT_TRUE(made(Json::array({"classify"})).empty());
}

TEST_F(HostedTowerPair, BiasIsAnOutputIfConfigured) {
  EXPECT_FALSE(embedded(*model()).contains("logit_bias"));
  played.towers["logit_bias"] = {{"name", "scale"}};
  EXPECT_EQ(embedded(*model({{"logit_bias", "bias"}})).at("logit_bias").item<double>(), 2.5);
}

TEST_F(HostedTowerPair, BiasMustBeAParameter) {
  played.towers["logit_bias"] = {{"instead", "of type float"}};
  EXPECT_REFUSED(refusals_of([] {
                   embedded(*model({{"logit_bias", "bias"}}));
                 }),
                 kOptionConflict, "/model/towers/logit_bias",
                 "'bias' of the network (Net) is of type float");
}

TEST_F(HostedTowerPair, FactorMustBeALogarithm) {
  for (const double scale : {std::numeric_limits<double>::quiet_NaN(), 14.3, -11.0}) {
    played.scale = torch::full({1}, scale);
    EXPECT_REFUSED(refusal(), kOptionConflict, "/model/towers/logit_scale", "starts at");
  }
}

TEST(Vocabulary, TokenizerMustNotHaveMoreTokensThanTheNetwork) {
  TowerOptions options{.pointer = "/model/towers"};
  options.tokenizer.merges = "merges.txt";
  check_vocabulary(514, 514, options);
  check_vocabulary(600, 514, options);  // a table with unused rows
  EXPECT_REFUSED(refusals_of([&] { check_vocabulary(513, 514, options); }), kOptionConflict,
                 "/model/towers/tokenizer/merges", "build the network for 514 tokens");
  options.tokenizer.merges.reset();
  EXPECT_REFUSED(refusals_of([&] { check_vocabulary(600, 514, options); }), kOptionConflict,
                 "/model/towers/tokenizer/merges", "specify the merges");
}

}  // namespace
}  // namespace stages
