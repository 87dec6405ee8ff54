#include "stages/worker/embedding_files.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <utility>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/csv.h"
#include "stages/artifact/loader.h"
#include "stages/evaluate/nearest_embeddings.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::csv_line;
using runner::csv_number;

constexpr std::size_t kShownOutliers = 10;

/// Returns the header of a .npy file, version 1.0, for a float32 matrix.
std::string npy_header(std::int64_t rows, std::int64_t columns) {
  static_assert(std::endian::native == std::endian::little);
  std::string about = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) +
                      ", " + std::to_string(columns) + "), }";
  constexpr std::size_t kBefore = 10, kAlignment = 64;
  about.append((kAlignment - (kBefore + about.size() + 1) % kAlignment) % kAlignment, ' ');
  about += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(about.size() % 256);
  header += static_cast<char>(about.size() / 256);
  return header + about;
}

/// Writes the folder.
class EmbeddingFiles {
 public:
  EmbeddingFiles(const EmbeddedImages& images, const LikenessOptions& options,
                 const RequestContext& context)
      : images_(images), names_(images.names), options_(options), context_(context) {}

  Json write(const EmbeddedImages& queries, const std::filesystem::path& out) const {
    runner::NewFolder folder(out);
    write_matrix(folder.draft() / "embeddings.npy");
    std::string rows = csv_line({"row", "file"});
    for (std::size_t row = 0; row < names_.size(); ++row)
      rows += csv_line({std::to_string(row), names_[row]});
    folder.write("images.csv", rows);
    const auto neighbors = nearest(images_.rows, [](auto query, auto row) { return query == row; });
    Json answer = {{"folder", out.string()},
                   {"images", names_.size()},
                   {"failed", images_.failed + queries.failed},
                   {"width", images_.rows.size(1)},
                   {"duplicates", write_duplicates(neighbors, folder)},
                   {"outliers", write_outliers(neighbors, folder)},
                   {"neighbors", write_neighbors(queries, folder)}};
    folder.publish();
    return answer;
  }

 private:
  using Neighbors = std::vector<std::vector<Neighbor>>;

  Neighbors nearest(const at::Tensor& queries,
                    const std::function<bool(std::int64_t, std::int64_t)>& is_left_out) const {
    const PassProgress progress("neighbors", queries.size(0));
    return nearest_embeddings(queries, images_.rows, options_.neighbors, is_left_out,
                              [&](std::int64_t done) {
                                if (context_.canceled()) throw runner::Canceled{};
                                context_.progress(progress.after(done, done));
                              });
  }

  void write_matrix(const std::filesystem::path& path) const {
    runner::NewFile file(path);
    file.append(npy_header(images_.rows.size(0), images_.rows.size(1)));
    const at::Tensor rows = images_.rows.contiguous();
    file.append({static_cast<const char*>(rows.const_data_ptr()), rows.nbytes()});
  }

  const std::string& name(std::int64_t row) const { return names_[static_cast<std::size_t>(row)]; }

  /// Writes each pair once, in the order of the images.
  std::int64_t write_duplicates(const Neighbors& neighbors, runner::NewFolder& folder) const {
    std::map<std::pair<std::int64_t, std::int64_t>, double> pairs;
    for (std::size_t image = 0; image < neighbors.size(); ++image) {
      for (const Neighbor& neighbor : neighbors[image]) {
        if (neighbor.similarity < options_.similarity) break;
        pairs.emplace(std::minmax(static_cast<std::int64_t>(image), neighbor.row),
                      neighbor.similarity);
      }
    }
    std::string text = csv_line({"file", "other", "similarity"});
    for (const auto& [pair, similarity] : pairs)
      text += csv_line({name(pair.first), name(pair.second), csv_number(similarity)});
    folder.write("duplicates.csv", text);
    return static_cast<std::int64_t>(pairs.size());
  }

  Json write_outliers(const Neighbors& neighbors, runner::NewFolder& folder) const {
    std::vector<std::pair<double, std::size_t>> order;  // mean similarity, image
    for (std::size_t image = 0; image < neighbors.size(); ++image) {
      if (neighbors[image].empty()) continue;
      double sum = 0;
      for (const Neighbor& neighbor : neighbors[image]) sum += neighbor.similarity;
      order.emplace_back(sum / static_cast<double>(neighbors[image].size()), image);
    }
    std::ranges::sort(order);
    std::string text = csv_line({"file", "similarity"});
    Json shown = Json::array();
    for (const auto& [similarity, image] : order) {
      text += csv_line({names_[image], csv_number(similarity)});
      if (shown.size() < kShownOutliers)
        shown.push_back({{"file", names_[image]}, {"similarity", similarity}});
    }
    folder.write("outliers.csv", text);
    return shown;
  }

  /// A query image is not its own neighbor.
  Json write_neighbors(const EmbeddedImages& queries, runner::NewFolder& folder) const {
    Json shown = Json::array();
    const std::vector<std::string>& query_names = queries.names;
    if (query_names.empty()) return shown;
    const auto is_same_file = [&](std::int64_t query, std::int64_t row) {
      std::error_code error;
      return std::filesystem::equivalent(query_names[static_cast<std::size_t>(query)], name(row),
                                         error);
    };
    const Neighbors neighbors = nearest(queries.rows, is_same_file);
    std::string text = csv_line({"query", "rank", "file", "similarity"});
    for (std::size_t query = 0; query < neighbors.size(); ++query) {
      Json of_query = Json::array();
      for (const Neighbor& neighbor : neighbors[query]) {
        of_query.push_back({{"file", name(neighbor.row)}, {"similarity", neighbor.similarity}});
        text += csv_line({query_names[query], std::to_string(of_query.size()), name(neighbor.row),
                          csv_number(neighbor.similarity)});
      }
      shown.push_back({{"query", query_names[query]}, {"nearest", std::move(of_query)}});
    }
    folder.write("neighbors.csv", text);
    return shown;
  }

  const EmbeddedImages& images_;
  const std::vector<std::string>& names_;
  const LikenessOptions options_;
  const RequestContext& context_;
};

}  // namespace

Json write_embeddings(const EmbeddedImages& images, const EmbeddedImages& queries,
                      const LikenessOptions& options, const std::filesystem::path& out,
                      const RequestContext& context) {
  return EmbeddingFiles(images, options, context).write(queries, out);
}

}  // namespace stages
