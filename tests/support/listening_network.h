#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/numerics/recomputable_module.h"

/// A layer that remembers the format in which it computed.
class ListeningLinear final : public stages::PrecisionModule {
 public:
  ListeningLinear(std::int64_t in, std::int64_t out)
      : weight(register_parameter(
            "weight", torch::sin(torch::arange(in * out, at::kFloat)).view({out, in}).clone())) {}
  at::Tensor forward(const at::Tensor& input) {
    const stages::OwnPrecision own(*this);
    const at::Tensor x = own(input);
    in.push_back(x.scalar_type());
    const at::Tensor y = torch::linear(x, weight);
    out.push_back(y.scalar_type());
    return y;
  }

  at::Tensor weight;
  std::vector<at::ScalarType> in, out;
};

/// first → second → head, the first two within "trunk", which has no weights and computes nothing.
/// "plain" is a layer of torch's own.
class ListeningNetwork final : public stages::PrecisionModule {
 public:
  ListeningNetwork() {
    trunk = register_module("trunk", torch::nn::Sequential());
    first = trunk->register_module("first", std::make_shared<ListeningLinear>(2, 4));
    second = trunk->register_module("second", std::make_shared<ListeningLinear>(4, 4));
    head = register_module("head", std::make_shared<ListeningLinear>(4, 3));
    plain = register_module("plain", torch::nn::Linear(4, 4));
    ignored = register_module("ignored", torch::nn::Tanh());
  }
  at::Tensor forward(const at::Tensor& input) {
    const stages::OwnPrecision own(*this);
    return head->forward(second->forward(first->forward(own(input))));
  }
  /// The dtypes of the most recent outputs of `first`, `second` and `head`.
  std::vector<at::ScalarType> formats() const {
    return {first->out.back(), second->out.back(), head->out.back()};
  }

  torch::nn::Sequential trunk = nullptr;
  std::shared_ptr<ListeningLinear> first, second, head;
  torch::nn::Linear plain = nullptr;
  torch::nn::Tanh ignored = nullptr;
};
