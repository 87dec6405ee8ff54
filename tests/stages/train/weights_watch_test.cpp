#include "stages/train/weights_watch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/python/python_host.h"
#include "stages/python/python_network.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

/// Simulates a Python with a network that has the parameters "a", of odd size, and "b".
int play(const char* text) {
  Json reply = Json::object();
  if (Json::parse(text)["do"] == "build") {
    give_to_python("parameter:a", torch::zeros({3}));
    give_to_python("parameter:b", torch::ones({4, 2}));
    reply = {
        {"modules", Json::array()},  {"parameters", {"a", "b"}},     {"buffers", Json::array()},
        {"dropouts", Json::array()}, {"blocks", Json::array()},      {"layers", Json::object()},
        {"state", Json::object()},   {"pretrained", nullptr},        {"mixing_layer", nullptr},
        {"towers", nullptr},         {"lone_mixing_layer", nullptr}, {"class", nullptr}};
  }
  reply_to_python_call(reply.dump().c_str());
  return 0;
}

class WatchedNetwork : public testing::Test {
 protected:
  void SetUp() override {
    set_python(play);
    network_ = std::make_shared<PythonNetwork>(Json::object(), /*draws=*/false, MakeHostedLayer());
  }
  void TearDown() override {
    network_.reset();
    set_python(nullptr);
  }
  at::Tensor weight(const std::string& name) { return network_->named_parameters()[name]; }

  /// Returns the error of a step, or "". The step changes one value of a parameter.
  std::string change(WeightsWatch& watch, std::int64_t step, const std::string& name,
                     std::int64_t place) {
    const at::Tensor data = weight(name).variable_data().view({-1});
    data[place].add_(1);
    try {
      watch.check(step);
      return "";
    } catch (const runner::StageError& error) {
      EXPECT_EQ(error.stage, "/net");
      return error.what();
    }
  }

  std::shared_ptr<PythonNetwork> network_;
};

TEST_F(WatchedNetwork, ChangeToAnyElementIsDetected) {
  for (const auto& [name, place] : {std::pair<const char*, int>{"a", 0}, {"a", 2}, {"b", 7}}) {
    WeightsWatch watch(*network_, "net");
    watch.remember(4);
    EXPECT_THAT(change(watch, 5, name, place),
                AllOf(HasSubstr("parameter '" + std::string(name) + "' by step 5"),
                      HasSubstr("only the optimizer may change parameters")));
  }
}

TEST_F(WatchedNetwork, ChangesByTheOptimizerAreAccepted) {
  WeightsWatch watch(*network_, "net");
  for (std::int64_t done = 0; done < 3; ++done) {
    watch.remember(done);
    watch.check(done + 1);
    weight("a").variable_data().add_(1);
  }
}

TEST_F(WatchedNetwork, FirstStepsAndEvery64thAreChecked) {
  WeightsWatch watch(*network_, "net");
  std::vector<std::int64_t> noticed;
  for (std::int64_t done = 10; done < 200; ++done) {
    watch.remember(done);
    if (!change(watch, done + 1, "b", 0).empty()) noticed.push_back(done + 1);
  }
  EXPECT_THAT(noticed, testing::ElementsAre(11, 12, 13, 64, 128, 192));
}

TEST(WeightsWatch, NetworkWithoutPythonIsNotRead) {
  const torch::nn::Linear network(2, 2);
  WeightsWatch watch(*network, "net");
  watch.remember(0);
  network->weight.variable_data().add_(1);
  EXPECT_NO_THROW(watch.check(1));
}

}  // namespace
}  // namespace stages
