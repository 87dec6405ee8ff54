#include "stages/contrastive/retrieval_examples.h"

#include <algorithm>
#include <numeric>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/evaluate/example_images.h"

namespace stages {
namespace {

constexpr std::int64_t kNearestCaptions = 3, kMostCaptions = 20;

/// Returns the cosines between one image and `texts` (k, width), as float64 of shape (k). Converts
/// only a few texts at a time, since plans do not include a copy of all of them.
at::Tensor cosines_of(const at::Tensor& image, const at::Tensor& texts) {
  constexpr std::int64_t kAtOnce = 256;
  const at::Tensor wide = image.to(at::kDouble),
                   cosines = torch::empty({texts.size(0)}, at::kDouble);
  for (std::int64_t begin = 0; begin < texts.size(0); begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, texts.size(0) - begin);
    cosines.narrow(0, begin, count).copy_(texts.narrow(0, begin, count).to(at::kDouble).mv(wide));
  }
  return cosines;
}

ExampleImage example_of(const RetrievedPairs& pairs, std::int64_t image, std::int64_t rank,
                        const std::string& group) {
  const auto at = static_cast<std::size_t>(image);
  const at::Tensor nearest =
      cosines_of(pairs.images[image], pairs.texts).argsort(/*stable=*/true, 0, /*descending=*/true);
  nlohmann::ordered_json captions = nlohmann::ordered_json::array();
  for (std::int64_t i = 0; i < std::min(kNearestCaptions, nearest.size(0)); ++i)
    captions.push_back(pairs.captions[static_cast<std::size_t>(nearest[i].item<std::int64_t>())]);
  return {group,
          pairs.names[at],
          {{"caption", pairs.captions[static_cast<std::size_t>(pairs.text_of[at])]},
           {"rank", rank + 1},
           {"nearest", std::move(captions)}}};
}

}  // namespace

void write_retrieval_examples(const RetrievedPairs& pairs, const RetrievalRanks& ranks,
                              const Dataset& dataset, std::int64_t count,
                              const std::filesystem::path& folder) {
  if (count == 0) return;
  const std::vector<std::int64_t>& rank = ranks.image_to_text;
  std::vector<double> cosine(rank.size());
  for (std::size_t image = 0; image < rank.size(); ++image) {
    cosine[image] = cosines_of(pairs.images[static_cast<std::int64_t>(image)],
                               pairs.texts.narrow(0, pairs.text_of[image], 1))
                        .item<double>();
  }
  std::vector<std::size_t> order(rank.size());
  std::iota(order.begin(), order.end(), 0);
  const auto most = std::min(order.size(), static_cast<std::size_t>(count));
  std::vector<ExampleImage> examples;
  const auto add = [&](const std::string& group, bool is_found) {
    std::size_t added = 0;
    for (const std::size_t image : order) {
      if (added == most) break;
      if ((rank[image] == 0) != is_found) continue;
      examples.push_back(example_of(pairs, static_cast<std::int64_t>(image), rank[image], group));
      ++added;
    }
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rank[a] > rank[b]; });
  add("images that rank their own caption lowest", /*is_found=*/false);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return cosine[a] > cosine[b]; });
  add("images that rank their own caption first", /*is_found=*/true);
  write_examples(examples, dataset, folder);
}

void write_similarity(const RetrievedPairs& pairs, const std::filesystem::path& folder) {
  const std::int64_t all = std::ssize(pairs.captions), shown = std::min(all, kMostCaptions);
  nlohmann::ordered_json captions = nlohmann::ordered_json::array();
  std::vector<std::int64_t> texts;
  for (std::int64_t i = 0; i < shown; ++i) {
    texts.push_back(i * all / shown);
    captions.push_back(pairs.captions[static_cast<std::size_t>(texts.back())]);
  }
  const at::Tensor columns = pairs.texts.index_select(0, torch::tensor(texts)).to(at::kDouble);
  nlohmann::ordered_json cosines = nlohmann::ordered_json::array();
  for (const std::int64_t text : texts) {
    at::Tensor row = torch::zeros({shown}, at::kDouble);
    std::int64_t own = 0;
    for (std::size_t image = 0; image < pairs.text_of.size(); ++image) {
      if (pairs.text_of[image] != text) continue;
      row += cosines_of(pairs.images[static_cast<std::int64_t>(image)], columns);
      ++own;
    }
    row /= own;
    cosines.push_back(std::vector<double>(row.const_data_ptr<double>(),
                                          row.const_data_ptr<double>() + row.numel()));
  }
  const nlohmann::ordered_json json = {{"captions", captions}, {"cosines", cosines}};
  runner::write_atomically(
      runner::NodeLayout(folder).similarity(),
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace stages
