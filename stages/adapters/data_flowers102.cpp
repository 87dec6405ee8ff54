#include "stages/adapters/data_flowers102.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/value/parse_json.h"
#include "stages/data/annotation_files.h"
#include "stages/data/image_files.h"
#include "stages/data/image_stage.h"
#include "stages/data/mat_file.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_flowers102(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  const auto parts =
      runner::choice<FlowerParts>(reader, "parts",
                                  {{"published", FlowerParts::kPublished},
                                   {"train_and_validation", FlowerParts::kTrainAndValidation},
                                   {"swapped", FlowerParts::kSwapped}});
  std::string divided_by;
  reader.read("parts", divided_by);
  return image_stage(
      reader, options,
      {.list = [root = options.root, parts,
                outside = options.allow_outside] { return list_flowers102(root, parts, outside); },
       .obtain = read_download(reader, "flowers102", options.root),
       .split_seed = 0,
       .folds = read_folds(reader),
       .divided_by = "parts " + divided_by,
       .captions = read_captions(reader, {"name"})});
}

}  // namespace

extern const runner::StageKind kDataFlowers102 = {.name = "data.flowers102",
                                                  .create = create_flowers102};

namespace {

namespace fs = std::filesystem;
using runner::Diagnostics;
using runner::ErrorCode;

constexpr const char *kPictures = "flowers-102", *kLabelFile = "imagelabels.mat",
                     *kLists = "setid.mat", *kNames = "cat_to_name.json";
constexpr std::size_t kMaxNamesBytes = 1 << 20, kMaxNameBytes = 1000;
constexpr std::int64_t kMostImages = 99'999;  // a file's number has five digits

/// Counts errors and remembers the first: "3 labels are outside 1 to 102; the first is …".
class Count {
 public:
  void add(const std::string& first) {
    if (count_++ == 0) first_ = first;
  }
  bool any() const { return count_ > 0; }
  std::string text(const std::string& one, const std::string& many) const {
    return count_ == 1 ? "1 " + one + ": " + first_
                       : std::to_string(count_) + " " + many + "; the first is " + first_;
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
};

/// The contents of the files next to the images.
class Annotations {
 public:
  /// `inner` is the path of their folder relative to the root, such as "flowers-102/".
  Annotations(const fs::path& root, std::string inner) : files_(root), inner_(std::move(inner)) {}

  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> training, validation, test;  // image numbers, starting at 1

  void read() {
    if (const auto bytes = files_.read(labels_file_, kMaxMatBytes))
      labels = list(labels_file_, *bytes, "labels");
    check_labels();
    const auto bytes = files_.read(lists_file_, kMaxMatBytes);
    if (!bytes) return;
    training = list(lists_file_, *bytes, "trnid");
    validation = list(lists_file_, *bytes, "valid");
    test = list(lists_file_, *bytes, "tstid");
    if (files_.is_faultless()) check_numbers();
  }

  std::vector<std::string> names() {
    const auto largest = labels.empty() ? 0 : *std::ranges::max_element(labels);
    const auto count = static_cast<std::size_t>(
        std::clamp<std::int64_t>(largest, 0, static_cast<std::int64_t>(flower_names().size())));
    for (const std::string& file : {inner_ + kNames, std::string(kNames)}) {
      if (files_.has(file)) return names_of(file, count);
    }
    return {flower_names().begin(), flower_names().begin() + static_cast<std::ptrdiff_t>(count)};
  }

  Diagnostics errors() const { return files_.errors(); }
  std::string digest() { return files_.digest(); }

 private:
  std::vector<std::int64_t> list(const std::string& file, const std::string& bytes,
                                 const char* name) {
    try {
      MatMatrix matrix = read_mat(bytes, name);
      if (matrix.values.empty() || matrix.rows == 1 || matrix.columns == 1)
        return std::move(matrix.values);
      files_.fault(file, "its '" + std::string(name) + "' is not a list: it has " +
                             std::to_string(matrix.rows) + " rows and " +
                             std::to_string(matrix.columns) + " columns");
    } catch (const std::invalid_argument& problem) {
      files_.fault(file, problem.what());
    }
    return {};
  }

  void check_labels() {
    const auto most = static_cast<std::int64_t>(flower_names().size());
    Count outside;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] >= 1 && labels[i] <= most) continue;
      outside.add(std::to_string(labels[i]) + " for image " + std::to_string(i + 1));
    }
    if (outside.any()) {
      const std::string range = "outside 1 to " + std::to_string(most);
      files_.fault(labels_file_, outside.text("label is " + range, "labels are " + range));
    }
    if (static_cast<std::int64_t>(labels.size()) > kMostImages)
      files_.fault(labels_file_,
                   "it has more than " + std::to_string(kMostImages) + " labels, the maximum");
  }

  void check_numbers() {
    const auto count = static_cast<std::int64_t>(labels.size());
    std::vector<const char*> list_of(labels.size(), nullptr);
    Count unknown, twice;
    const auto check = [&](const std::vector<std::int64_t>& numbers, const char* name) {
      for (const std::int64_t number : numbers) {
        if (number < 1 || number > count) {
          unknown.add(std::to_string(number) + " in '" + name + "'");
          continue;
        }
        const char*& list = list_of[static_cast<std::size_t>(number - 1)];
        if (list) twice.add(std::to_string(number) + ", in '" + list + "' and in '" + name + "'");
        list = name;
      }
    };
    check(training, "trnid");
    check(validation, "valid");
    check(test, "tstid");
    const std::string range = "outside 1 to " + std::to_string(count) + ", the number of labels";
    if (unknown.any())
      files_.fault(lists_file_,
                   unknown.text("image number is " + range, "image numbers are " + range));
    if (twice.any())
      files_.fault(lists_file_, twice.text("image is listed twice", "images are listed twice"));
  }

  /// Returns the first `count` names in the file.
  std::vector<std::string> names_of(const std::string& file, std::size_t count) {
    const auto bytes = files_.read(file, kMaxNamesBytes);
    if (!bytes) return {};
    const auto json = runner::parse_json<nlohmann::json>(*bytes);
    if (!json.is_object()) {
      files_.fault(file, R"(it is not a JSON object such as {"1": "pink primrose"})");
      return {};
    }
    std::vector<std::string> names;
    for (std::size_t label = 1; label <= count; ++label) {
      const auto found = json.find(std::to_string(label));
      const bool is_name = found != json.end() && found->is_string() &&
                           !found->get_ref<const std::string&>().empty() &&
                           found->get_ref<const std::string&>().size() <= kMaxNameBytes;
      if (!is_name) {
        files_.fault(file, "it has no name for label " + std::to_string(label));
        continue;
      }
      names.push_back(*found);
      const auto same = std::find(names.begin(), names.end() - 1, names.back());
      if (same != names.end() - 1)
        files_.fault(file, "two labels are called '" + names.back() + "'");
    }
    return names;
  }

  AnnotationFiles files_;
  const std::string inner_, labels_file_ = inner_ + kLabelFile, lists_file_ = inner_ + kLists;
};

std::string file_name(std::int64_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "jpg/image_%05lld.jpg", static_cast<long long>(number));
  return name;
}

}  // namespace

runner::Result<ImageList> list_flowers102(const fs::path& root, FlowerParts parts,
                                          bool allow_outside) {
  const auto folder = published_folder(root, kPictures, "jpg");
  if (!folder) {
    return runner::Diagnostic{
        ErrorCode::kMissingFolder,
        {},
        "",
        "Oxford Flowers 102 is not in '" + root.string() +
            "', which contains neither a folder named jpg nor one named " + kPictures,
        "check root; `retort data fetch flowers102` downloads the dataset, `retort "
        "data make flowers102` creates a small dataset in the same format"};
  }
  Annotations annotations(root, *folder == root ? "" : std::string(kPictures) + "/");
  annotations.read();
  ImageList list;
  list.root = *folder;
  list.classes = annotations.names();
  Diagnostics errors = annotations.errors();
  if (!errors.empty()) return errors;

  const auto add = [&](Part part, const std::vector<std::int64_t>& numbers) {
    for (const std::int64_t number : numbers)
      list[part].push_back(
          {file_name(number), annotations.labels[static_cast<std::size_t>(number - 1)] - 1});
  };
  const bool is_swapped = parts == FlowerParts::kSwapped;
  add(Part::kTrain, is_swapped ? annotations.test : annotations.training);
  add(parts == FlowerParts::kTrainAndValidation ? Part::kTrain : Part::kValidation,
      annotations.validation);
  add(Part::kTest, is_swapped ? annotations.training : annotations.test);
  if (list[Part::kTrain].empty()) {
    list.no_train = {ErrorCode::kTooFewSamples,
                     {},
                     "",
                     "'" + (*folder / kLists).string() + "' lists no training images",
                     "choose other parts"};
  }
  add_names(list, list.classes);
  check_files(list, allow_outside, errors);
  if (!errors.empty()) return errors;
  list.annotations = annotations.digest();
  return list;
}

std::span<const std::string_view> flower_names() {
  static constexpr std::array<std::string_view, 102> kNames = {
      // clang-format off
      "pink primrose", "hard-leaved pocket orchid", "canterbury bells", "sweet pea", "english marigold", "tiger lily",
      "moon orchid", "bird of paradise", "monkshood", "globe thistle", "snapdragon", "colt's foot", "king protea",
      "spear thistle", "yellow iris", "globe-flower", "purple coneflower", "peruvian lily", "balloon flower",
      "giant white arum lily", "fire lily", "pincushion flower", "fritillary", "red ginger", "grape hyacinth",
      "corn poppy", "prince of wales feathers", "stemless gentian", "artichoke", "sweet william", "carnation",
      "garden phlox", "love in the mist", "mexican aster", "alpine sea holly", "ruby-lipped cattleya", "cape flower",
      "great masterwort", "siam tulip", "lenten rose", "barbeton daisy", "daffodil", "sword lily", "poinsettia",
      "bolero deep blue", "wallflower", "marigold", "buttercup", "oxeye daisy", "common dandelion", "petunia",
      "wild pansy", "primula", "sunflower", "pelargonium", "bishop of llandaff", "gaura", "geranium", "orange dahlia",
      "pink-yellow dahlia", "cautleya spicata", "japanese anemone", "black-eyed susan", "silverbush",
      "californian poppy", "osteospermum", "spring crocus", "bearded iris", "windflower", "tree poppy", "gazania",
      "azalea", "water lily", "rose", "thorn apple", "morning glory", "passion flower", "lotus", "toad lily",
      "anthurium", "frangipani", "clematis", "hibiscus", "columbine", "desert-rose", "tree mallow", "magnolia",
      "cyclamen", "watercress", "canna lily", "hippeastrum", "bee balm", "ball moss", "foxglove", "bougainvillea",
      "camellia", "mallow", "mexican petunia", "bromelia", "blanket flower", "trumpet creeper", "blackberry lily",
      // clang-format on
  };
  return kNames;
}

}  // namespace stages
