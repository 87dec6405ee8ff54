#include "stages/contrastive/retrieval_ranks.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

#include <torch/types.h>

namespace stages {
namespace {

/// The best candidate of a query that counts as found.
struct Found {
  double product = -std::numeric_limits<double>::infinity();
  std::int64_t index = 0;

  /// Candidates come in the order of their indices, so that of equal ones the first stays.
  void offer(double other, std::int64_t at) {
    if (other > product) *this = {other, at};
  }
  bool is_preceded_by(double other, std::int64_t at) const {
    return other > product || (other == product && at < index);
  }
};

struct Square {
  std::int64_t image = 0, text = 0;  ///< its first row and column
  std::int64_t images = 0, texts = 0;
};

class PairProducts {
 public:
  PairProducts(const at::Tensor& images, const at::Tensor& texts, std::int64_t tile, const std::function<void()>& step)
      : images_(images), texts_(texts), tile_(tile), step_(step) {}

  /// Calls `use` with every square for which `is_wanted` holds, row after row of squares, and its products.
  template <typename Wanted, typename Use>
  void for_squares(const Wanted& is_wanted, const Use& use) const {
    const std::int64_t images = images_.size(0), texts = texts_.size(0);
    for (std::int64_t image = 0; image < images; image += tile_) {
      const std::int64_t rows = std::min(tile_, images - image);
      const at::Tensor some = images_.narrow(0, image, rows).to(at::kDouble);
      for (std::int64_t text = 0; text < texts; text += tile_) {
        const Square square{image, text, rows, std::min(tile_, texts - text)};
        if (!is_wanted(square)) continue;
        if (step_) step_();
        use(square, products(some, square).data_ptr<double>());
      }
    }
  }

 private:
  at::Tensor products(const at::Tensor& images, const Square& square) const {
    const at::Tensor result = at::mm(images, texts_.narrow(0, square.text, square.texts).to(at::kDouble).t());
    return images_.scalar_type() == at::kDouble ? result : result.to(at::kFloat).to(at::kDouble);
  }

  const at::Tensor &images_, &texts_;
  const std::int64_t tile_;
  const std::function<void()>& step_;
};

/// Which squares hold a pair that counts as found.
class OwnTexts {
 public:
  OwnTexts(std::span<const std::int64_t> text_of, std::int64_t tile) : tile_(tile) {
    for (std::size_t at = 0; at < text_of.size(); at += static_cast<std::size_t>(tile)) {
      const auto some = text_of.subspan(at, std::min(static_cast<std::size_t>(tile), text_of.size() - at));
      std::ranges::sort(sorted_.emplace_back(some.begin(), some.end()));
    }
  }
  bool operator()(const Square& square) const {
    const std::vector<std::int64_t>& own = sorted_[static_cast<std::size_t>(square.image / tile_)];
    const auto first = std::ranges::lower_bound(own, square.text);
    return first != own.end() && *first < square.text + square.texts;
  }

 private:
  const std::int64_t tile_;
  std::vector<std::vector<std::int64_t>> sorted_;  // of the images of each row of squares
};

}  // namespace

RetrievalRanks retrieval_ranks(const at::Tensor& images, const at::Tensor& texts, std::span<const std::int64_t> text_of,
                               std::int64_t tile, const std::function<void()>& step) {
  assert(images.size(1) == texts.size(1) && images.scalar_type() == texts.scalar_type());
  const auto n = static_cast<std::size_t>(images.size(0)), m = static_cast<std::size_t>(texts.size(0));
  std::vector<std::int64_t> own;
  if (text_of.empty()) {
    own.resize(n);
    std::iota(own.begin(), own.end(), 0);
    text_of = own;
  }
  assert(text_of.size() == n && (!own.empty() ? m == n : true));
  std::vector<Found> of_image(n), of_text(m);
  const PairProducts pairs(images, texts, tile, step);

  pairs.for_squares(OwnTexts(text_of, tile), [&](const Square& square, const double* products) {
    for (std::int64_t row = 0; row < square.images; ++row, products += square.texts) {
      const std::int64_t image = square.image + row, text = text_of[static_cast<std::size_t>(image)];
      if (text < square.text || text >= square.text + square.texts) continue;
      const double product = products[text - square.text];
      of_image[static_cast<std::size_t>(image)].offer(product, text);
      of_text[static_cast<std::size_t>(text)].offer(product, image);
    }
  });

  RetrievalRanks ranks{std::vector<std::int64_t>(n), std::vector<std::int64_t>(m)};
  pairs.for_squares([](const Square&) { return true; },
                    [&](const Square& square, const double* product) {
                      for (std::int64_t row = 0; row < square.images; ++row) {
                        const auto image = static_cast<std::size_t>(square.image + row);
                        std::int64_t before = 0;
                        for (std::int64_t column = 0; column < square.texts; ++column, ++product) {
                          const auto text = static_cast<std::size_t>(square.text + column);
                          before += of_image[image].is_preceded_by(*product, square.text + column);
                          ranks.text_to_image[text] += of_text[text].is_preceded_by(*product, square.image + row);
                        }
                        ranks.image_to_text[image] += before;
                      }
                    });
  return ranks;
}

RetrievalMetrics retrieval_metrics(std::span<const std::int64_t> ranks, std::span<const std::int64_t> recall_at) {
  assert(!ranks.empty());
  std::vector<std::int64_t> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  RetrievalMetrics metrics;
  metrics.mean_rank =
      static_cast<double>(std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0})) / static_cast<double>(n) + 1;
  metrics.median_rank = static_cast<double>((sorted[(n - 1) / 2] + sorted[n / 2]) / 2 + 1);
  for (const std::int64_t k : recall_at) {
    const auto found = std::ranges::lower_bound(sorted, k) - sorted.begin();
    metrics.recall[k] = static_cast<double>(found) / static_cast<double>(n);
  }
  return metrics;
}

}  // namespace stages
