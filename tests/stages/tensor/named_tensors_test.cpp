#include "stages/tensor/named_tensors.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(NamedTensors, ReferencesStayValidWhenTensorsAreAdded) {
  NamedTensors tensors = {{"first", torch::ones({2, 3})}};
  const at::Tensor& first = tensors.at("first");
  for (int i = 0; i < 100; ++i) tensors.set("more" + std::to_string(i), torch::zeros({i + 1}));
  EXPECT_TRUE(first.equal(torch::ones({2, 3})));
  tensors.set("first", torch::zeros({1}));
  EXPECT_TRUE(first.equal(torch::ones({2, 3})));
  EXPECT_EQ(tensors.at("first").numel(), 1);
}

TEST(NamedTensors, UnknownNameListsTheExistingNames) {
  const NamedTensors tensors = {{"image", torch::ones({1})}, {"label", torch::ones({1})}};
  try {
    tensors.at("labels");
    ADD_FAILURE() << "there is none";
  } catch (const std::out_of_range& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no tensor 'labels' among: image, label"));
  }
}

}  // namespace
}  // namespace stages
