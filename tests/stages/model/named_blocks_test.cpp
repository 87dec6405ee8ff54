#include "stages/model/named_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "tests/support/refused.h"

namespace stages {
namespace {

/// encoder.layers.0, encoder.layers.1 and head.
struct Encoder : torch::nn::Module {
  Encoder() {
    auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>());
    auto layers = encoder->register_module("layers", std::make_shared<torch::nn::Module>());
    layers->register_module("0", torch::nn::Linear(2, 2));
    layers->register_module("1", torch::nn::Linear(2, 2));
    register_module("head", torch::nn::Linear(2, 3));
  }
};

TEST(NamedBlocks, PatternsThatMatchModulesAreAccepted) {
  EXPECT_NO_THROW(check_blocks(Encoder(), {"encoder.layers.*", "head"}, {"encoder"}, "/model"));
}

TEST(NamedBlocks, PatternWithoutModuleIsRejected) {
  EXPECT_REFUSED(check_blocks(Encoder(), {"head", "encoder.layer.*"}, {}, "/model"),
                 kOptionConflict, "/model/blocks/1");
}

TEST(NamedBlocks, BlockInsideAnotherIsRejected) {
  EXPECT_REFUSED(check_blocks(Encoder(), {"encoder.layers.*", "encoder"}, {}, "/model"),
                 kOptionConflict, "/model/blocks/0");
}

TEST(NamedBlocks, ModuleThatReturnsNoTensorIsRejected) {
  EXPECT_REFUSED(check_blocks(Encoder(), {"encoder.layers.*"}, {"encoder.layers.1"}, "/model"),
                 kOptionConflict, "/model/blocks/0");
}

}  // namespace
}  // namespace stages
