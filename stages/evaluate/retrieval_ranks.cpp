#include "stages/evaluate/retrieval_ranks.h"

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
    const std::int64_t n = images_.size(0);
    for (std::int64_t image = 0; image < n; image += tile_) {
      const std::int64_t rows = std::min(tile_, n - image);
      const at::Tensor some = images_.narrow(0, image, rows).to(at::kDouble);
      for (std::int64_t text = 0; text < n; text += tile_) {
        const Square square{image, text, rows, std::min(tile_, n - text)};
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
class SharedCaptions {
 public:
  SharedCaptions(std::span<const std::int64_t> captions, std::int64_t tile) : tile_(tile) {
    for (std::size_t at = 0; at < captions.size(); at += static_cast<std::size_t>(tile)) {
      const auto some = captions.subspan(at, std::min(static_cast<std::size_t>(tile), captions.size() - at));
      std::ranges::sort(sorted_.emplace_back(some.begin(), some.end()));
    }
  }
  bool operator()(const Square& square) const {
    const auto &of_images = sorted_[static_cast<std::size_t>(square.image / tile_)],
               &of_texts = sorted_[static_cast<std::size_t>(square.text / tile_)];
    for (auto image = of_images.begin(), text = of_texts.begin(); image != of_images.end() && text != of_texts.end();) {
      if (*image == *text) return true;
      ++(*image < *text ? image : text);
    }
    return false;
  }

 private:
  const std::int64_t tile_;
  std::vector<std::vector<std::int64_t>> sorted_;
};

}  // namespace

RetrievalRanks retrieval_ranks(const at::Tensor& images, const at::Tensor& texts,
                               std::span<const std::int64_t> captions, std::int64_t tile,
                               const std::function<void()>& step) {
  assert(images.sizes() == texts.sizes() && images.scalar_type() == texts.scalar_type());
  const auto n = static_cast<std::size_t>(images.size(0));
  assert(captions.empty() || captions.size() == n);
  std::vector<std::int64_t> own;
  if (captions.empty()) {
    own.resize(n);
    std::iota(own.begin(), own.end(), 0);
    captions = own;
  }
  const auto caption = [&](std::int64_t at) { return captions[static_cast<std::size_t>(at)]; };
  std::vector<Found> of_image(n), of_text(n);
  const PairProducts pairs(images, texts, tile, step);

  pairs.for_squares(SharedCaptions(captions, tile), [&](const Square& square, const double* product) {
    for (std::int64_t image = square.image; image < square.image + square.images; ++image) {
      for (std::int64_t text = square.text; text < square.text + square.texts; ++text, ++product) {
        if (caption(image) != caption(text)) continue;
        of_image[static_cast<std::size_t>(image)].offer(*product, text);
        of_text[static_cast<std::size_t>(text)].offer(*product, image);
      }
    }
  });

  RetrievalRanks ranks{std::vector<std::int64_t>(n), std::vector<std::int64_t>(n)};
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
