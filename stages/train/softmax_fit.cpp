#include "stages/train/softmax_fit.h"

#include <algorithm>

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/train/lbfgs.h"

namespace stages {
namespace {

constexpr std::int64_t kRowsAtOnce = 4096;  // rows of the features per chunk, which bounds the
                                            // logits' memory

/// The weights and the bias in one vector, as views.
struct Head {
  Head(const at::Tensor& vector, std::int64_t classes, std::int64_t width)
      : weight(vector.narrow(0, 0, classes * width).view({classes, width})),
        bias(vector.narrow(0, classes * width, classes)) {}
  at::Tensor weight, bias;
};

/// The objective of fit_softmax() and its gradient.
class Objective {
 public:
  Objective(const at::Tensor& features, const at::Tensor& labels, const SoftmaxFitOptions& options)
      : features_(features),
        labels_(labels),
        classes_(options.classes),
        rows_(static_cast<double>(features.size(0))),
        penalty_(options.l2_strength / rows_) {}

  double operator()(const at::Tensor& vector, const at::Tensor& gradient) const {
    const Head head(vector, classes_, features_.size(1)), by(gradient, classes_, features_.size(1));
    by.weight.copy_(head.weight).mul_(penalty_);
    by.bias.zero_();
    double sum = 0;
    for (std::int64_t begin = 0; begin < features_.size(0); begin += kRowsAtOnce) {
      const std::int64_t rows = std::min(kRowsAtOnce, features_.size(0) - begin);
      const at::Tensor x = features_.narrow(0, begin, rows);
      const at::Tensor label = labels_.narrow(0, begin, rows).unsqueeze(1);
      at::Tensor residual = torch::addmm(head.bias, x, head.weight.t()).log_softmax(1);
      sum -= residual.gather(1, label).sum().item<double>();
      residual.exp_().scatter_add_(1, label, torch::full({rows, 1}, -1.0, x.options()));
      residual.div_(rows_);
      by.weight.addmm_(residual.t(), x);
      by.bias.add_(residual.sum(0));
    }
    return sum / rows_ +
           penalty_ / 2 * torch::dot(head.weight.view(-1), head.weight.view(-1)).item<double>();
  }

 private:
  const at::Tensor features_, labels_;
  const std::int64_t classes_;
  const double rows_, penalty_;
};

}  // namespace

SoftmaxFit fit_softmax(const at::Tensor& features, const at::Tensor& labels,
                       const SoftmaxFitOptions& options,
                       const std::function<void()>& before_evaluation) {
  const torch::NoGradGuard no_graph;
  const Objective objective(features, labels, options);
  const Minimum minimum =
      minimize(torch::zeros({options.classes * (features.size(1) + 1)}, features.options()),
               [&](const at::Tensor& vector, const at::Tensor& gradient) {
                 if (before_evaluation) before_evaluation();
                 return objective(vector, gradient);
               },
               {.max_iterations = options.max_iterations, .tolerance = options.tolerance});
  const Head head(minimum.x, options.classes, features.size(1));
  return {.weight = head.weight,
          .bias = head.bias,
          .iterations = minimum.iterations,
          .largest_gradient = minimum.largest_gradient,
          .loss = minimum.value};
}

double accuracy_of(const SoftmaxFit& fit, const at::Tensor& features, const at::Tensor& labels) {
  std::int64_t correct = 0;
  for (std::int64_t begin = 0; begin < features.size(0); begin += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, features.size(0) - begin);
    const at::Tensor logits =
        torch::addmm(fit.bias, features.narrow(0, begin, rows), fit.weight.t());
    correct += logits.argmax(1).eq(labels.narrow(0, begin, rows)).sum().item<std::int64_t>();
  }
  return static_cast<double>(correct) / static_cast<double>(features.size(0));
}

std::int64_t softmax_fit_bytes(std::int64_t rows, std::int64_t width, std::int64_t classes,
                               std::int64_t bytes_per_number) {
  const std::int64_t vectors = lbfgs_vectors(LbfgsOptions().history);
  // The logits, their softmax and the values gathered from them, for some rows.
  const std::int64_t logits = 4 * std::min(rows, kRowsAtOnce) * (classes + 2);
  return bytes_per_number * (vectors * classes * (width + 1) + logits);
}

}  // namespace stages
