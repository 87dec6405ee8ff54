#include "stages/train/muon.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/train/optimizer.h"
#include "tests/support/on_test_device.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

const MuonOptions kMuon{.learning_rate = 0.1,
                        .momentum = 0.9,
                        .nesterov = true,
                        .steps = 5,
                        .orthogonalization_epsilon = 1e-7,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .epsilon = 1e-8};

TEST(Muon, HeadsEmbeddingsAndVectorsUseAdamW) {
  const at::Tensor matrix = torch::ones({3, 4}, here());
  EXPECT_TRUE(is_muon_matrix(kMuon, "blocks.0.attn.qkv.weight", matrix));
  EXPECT_TRUE(is_muon_matrix(kMuon, "blocks.0.mlp.fc1.weight", matrix));
  EXPECT_TRUE(is_muon_matrix(kMuon, "stem.conv.weight", torch::ones({3, 2, 3, 3}, here())));
  EXPECT_FALSE(is_muon_matrix(kMuon, "blocks.0.attn.qkv.bias", torch::ones(3, here())));
  EXPECT_FALSE(is_muon_matrix(kMuon, "head.weight", matrix));
  EXPECT_FALSE(is_muon_matrix(kMuon, "fc.weight", matrix));
  EXPECT_FALSE(is_muon_matrix(kMuon, "text_model.embeddings.token_embedding.weight", matrix));
  EXPECT_FALSE(is_muon_matrix(kMuon, "patch_embed.proj.weight", torch::ones({3, 2, 3, 3}, here())));
}

TEST(Muon, SelectedParametersUseAdamW) {
  MuonOptions rule = kMuon;
  rule.adamw_for = {"stem"};
  EXPECT_FALSE(is_muon_matrix(rule, "stem.conv.weight", torch::ones({3, 2}, here())));
}

TEST(Muon, MatrixHasOneStateTensor) {
  at::Tensor matrix = torch::ones({3, 4}, here().requires_grad(true)),
             bias = torch::ones(3, here().requires_grad(true));
  Optimizer optimizer(kMuon, {{"matrix", matrix}, {"bias", bias}});
  for (at::Tensor& parameter : std::vector{matrix, bias})
    parameter.mutable_grad() = torch::ones_like(parameter);
  optimizer.step({}, {}, optimizer.prepare());
  EXPECT_EQ(optimizer.state().size(), 4);
  EXPECT_TRUE(optimizer.state().contains("matrix.momentum"));
  EXPECT_TRUE(optimizer.state().contains("bias.age"));
}

TEST(Muon, ConvolutionKernelIsAMatrixWithOneRowPerOutput) {
  at::Tensor kernel = torch::linspace(-1, 1, 54, here()).view({3, 2, 3, 3}).requires_grad_(),
             matrix = kernel.detach().clone().view({3, 18}).requires_grad_();
  Optimizer one(kMuon, {{"x", kernel}}), other(kMuon, {{"x", matrix}});
  for (int step = 0; step < 3; ++step) {
    kernel.mutable_grad() = (kernel.detach() * 3 + step).cos();
    matrix.mutable_grad() = kernel.grad().view({3, 18}).clone();
    one.step({}, {}, one.prepare());
    other.step({}, {}, other.prepare());
    EXPECT_TRUE(kernel.view({3, 18}).equal(matrix));
  }
}

TEST(Muon, PatternWithoutAMatchIsRejected) {
  MuonOptions rule = kMuon;
  rule.adamw_for = {"stemm"};
  const std::vector<ParameterGroup> groups = {
      {.name = "",
       .optimizer = rule,
       .parameters = {{"stem.weight", torch::ones({3, 2}, here())}}}};
  EXPECT_REFUSED(check_muon(groups), kOptionConflict, "/optimizer/adamw_for", "'stemm'");
}

TEST(Muon, TrainingWithoutMatricesIsRejected) {
  const std::vector<ParameterGroup> groups = {
      {.name = "",
       .optimizer = kMuon,
       .parameters = {{"head.weight", torch::ones({3, 2}, here())}}}};
  EXPECT_REFUSED(check_muon(groups), kOptionConflict, "/optimizer", "none are trained");
}

}  // namespace
}  // namespace stages
