#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/contrastive/contrastive_loss.h"

namespace stages {

/// Random vectors of length 1: (rows, width) float64.
inline at::Tensor unit_rows(std::int64_t rows, std::int64_t width, std::uint64_t seed) {
  const at::Tensor x =
      torch::empty({rows, width}, at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(seed));
  return x / x.norm(2, 1, /*keepdim=*/true);
}

/// The contrastive loss and its gradients with respect to its three arguments, computed as the
/// formula is written: with all similarities at once.
inline std::vector<at::Tensor> as_written(const at::Tensor& images, const at::Tensor& texts,
                                          const at::Tensor& scale, const PairGroups& groups) {
  const std::vector<at::Tensor> leaves = {images.detach().requires_grad_(),
                                          texts.detach().requires_grad_(),
                                          scale.detach().requires_grad_()};
  const at::Tensor x = leaves[0].mm(leaves[1].t()) * leaves[2].exp();
  at::Tensor right = torch::eye(x.size(0), at::kDouble);
  if (groups.of_pair.defined()) {
    right = groups.of_pair.unsqueeze(0).eq(groups.of_pair.unsqueeze(1)).to(at::kDouble);
    right = right / right.sum(1, /*keepdim=*/true);
  }
  const at::Tensor loss = -(right * (x.log_softmax(1) + x.log_softmax(0))).sum() / (2 * x.size(0));
  loss.backward();
  return {loss.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

/// Checks that the tensors differ by less than 1e-12 of the largest number.
inline void expect_equal(const std::vector<at::Tensor>& actual,
                         const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT((actual[i] - expected[i]).abs().max().item<double>(),
              1e-12 * (1 + expected[i].abs().max().item<double>()))
        << i;
  }
}

}  // namespace stages
