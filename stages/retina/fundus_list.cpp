#include "stages/retina/fundus_list.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/shared/stage/image_folder.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/image_names.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/data/annotation_files.h"
#include "stages/data/csv_table.h"
#include "stages/data/image_files.h"

namespace stages {
namespace {

using Extent = Expression::Extent;

/// Words that tools add to the names of copies. In this and all patterns below, nested repetitions
/// are possessive, so matching is fast for any name.
constexpr const char* kChange =
    "(?:copy|dup(?:licate)?|orig(?:inal)?|aug(?:m(?:ent(?:ed|ation)?)?)?|[hv]?[-_]?flip(?:ped)?(?:["
    "-_]?(?:hv|lr|ud|["
    "hvxy]))?|"
    "mir(?:ror(?:ed)?)?|rot(?:at(?:e|ed|ion))?|transposed?|(?:center|random)?-?crop(?:ped)?|zoom(?:"
    "ed)?|"
    "shear(?:ed)?|"
    "shift(?:ed)?|translat(?:e|ed|ion)|scaled?|resized?|bright(?:ness|er|ened)?|dark(?:er|ened)?|"
    "contrast|gamma|hue|"
    "sat(?:uration)?|colou?r(?:ed)?|jitter|blur(?:red)?|gauss(?:ian)?|nois[ey]|sharp(?:en|ened)?|"
    "clahe|equali[sz]ed?|"
    "enhanced|(?:pre)?processed|affine|elastic|distort(?:ed|ion)?|cutout|f[ab]|gf)";
constexpr const char* kEnding = "(?:jpe?g|png|webp|tiff?|bmp)";

/// Compiles the patterns, ignoring case.
std::vector<Expression> compiled(const std::vector<std::string>& patterns) {
  std::vector<Expression> all;
  for (const std::string& pattern : patterns) all.emplace_back("(?i)" + pattern);
  return all;
}

std::optional<std::string> first_match(const std::vector<Expression>& patterns,
                                       const std::string& name) {
  for (const Expression& pattern : patterns) {
    std::optional<std::string> taken = pattern.capture_or_first(name, "patient");
    if (taken && !taken->empty()) return taken;
  }
  return std::nullopt;
}

std::string without_ending(std::string_view file) {
  return std::string(runner::is_image_name(file) ? file.substr(0, file.rfind('.')) : file);
}

}  // namespace

PatientNames::PatientNames(const std::optional<std::string>& pattern) {
  if (pattern) {
    pattern_.emplace(*pattern, Extent::kAnyPart);
    if (!pattern_->has_groups())
      throw std::invalid_argument("it has no group: put the patient in parentheses");
  }
  const std::string change = kChange, ending = kEnding;
  // Roboflow and Augmentor put the original name into names of this form.
  wrappers_ = compiled({"(.+?)[_.]" + ending + "\\.rf\\.[0-9a-z]{8,}",
                        ".*_original_(.+?)\\." + ending + "_[0-9a-f-]{36}"});
  prefixes_ = compiled(
      {"(?:(?:rot(?:at(?:e|ed|ion))?[-_]\\d+|" + change + "\\d*)(?:deg)?[-_ .]++)+(\\D*+\\d.*)"});
  eyes_ = compiled({
      "(\\D*+\\d.*?)[-_ .]*+(?<=[-_ .\\d])(?:left|right|od|os)(?![a-z]).*",
      "(\\d+)[-_][lr][1-9]?(?![a-z0-9]).*",
      "(?:left|right)[-_ .]+(\\d+).*",
  });
  pictures_ = compiled({
      "([0-9a-f]{12})(?![0-9a-z]).*",                        // APTOS
      "(\\d{8}_\\d{4,5}_\\d{4}_pp|im\\d{6})(?![0-9a-z]).*",  // Messidor
      "(idrid_\\d+).*",
      "(\\d{3}-\\d{4})-\\d{3}(?!\\d).*",  // DDR; the last number may distinguish images of the same
                                          // eye
      "(\\d{17})(?!\\d).*",               // DDR
  });
  suffixes_ = compiled(
      {"(\\D*+\\d.*?)(?:[-_ .]++" + change + "(?:[-_ .]*+\\d++)*+(?:deg)?(?: ?\\(\\d+\\))?)+"});
}

DrawingOwner PatientNames::of(std::string_view file) const {
  std::string name = without_ending(file);
  if (pattern_) {
    std::optional<std::string> patient = pattern_->capture_or_first(name, "patient");
    if (patient && !patient->empty()) return {*std::move(patient), /*is_patient=*/true};
  }
  for (const auto* const patterns : {&wrappers_, &prefixes_}) {
    if (std::optional<std::string> inner = first_match(*patterns, name)) name = *std::move(inner);
  }
  if (!pattern_) {
    if (std::optional<std::string> patient = first_match(eyes_, name))
      return {*std::move(patient), true};
  }
  for (const auto* const patterns : {&pictures_, &suffixes_}) {
    if (std::optional<std::string> picture = first_match(*patterns, name))
      return {*std::move(picture), false};
  }
  return {std::move(name), false};
}

namespace {

namespace fs = std::filesystem;
using runner::Diagnostics;
using runner::ErrorCode;

constexpr std::size_t kNamedFundusImages = 10, kMaxTableBytes = std::size_t{64} << 20;
constexpr std::array kGradeNames = {"No DR", "Mild NPDR", "Moderate NPDR", "Severe NPDR", "PDR"};
static_assert(kGradeNames.size() == kGrades);
constexpr const char* kGradeHelp =
    "grades are 0 (no retinopathy), 1 (mild), 2 (moderate), 3 (severe) and 4 (proliferative)";
constexpr const char* kEyepacsTest = "retinopathy_solution.csv";

std::optional<std::int64_t> grade_in(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] >= '0' + kGrades) return std::nullopt;
  return text[0] - '0';
}

std::string_view stripped_field(std::string_view field) {
  const std::size_t first = field.find_first_not_of(" \t\r");
  return first == field.npos ? ""
                             : field.substr(first, field.find_last_not_of(" \t\r") - first + 1);
}

ImageList graded(const fs::path& root) {
  ImageList list;
  list.root = root;
  list.classes.assign(kGradeNames.begin(), kGradeNames.end());
  list.has_order = true;
  return list;
}

/// Sets the owner of `file` from its name without the folder. Copies have the grade of their
/// original, so the grade is part of an owner that is not a patient.
void set_owner(ImageFile& file, const PatientNames& names) {
  DrawingOwner owner = names.of(std::string_view(file.name).substr(file.name.rfind('/') + 1));
  file.names_patient = owner.is_patient;
  file.patient =
      owner.is_patient ? std::move(owner.name) : std::to_string(file.label) + "/" + owner.name;
}

runner::Diagnostic fundus_error(ErrorCode code, std::string message, std::string help) {
  return {code, {}, "", std::move(message), std::move(help)};
}

class GradeFolders {
 public:
  GradeFolders(const fs::path& root, bool allow_outside, const PatientNames& names)
      : root_(root), allow_outside_(allow_outside), names_(names), list_(graded(root)) {}

  runner::Result<ImageList> list() {
    std::map<std::string_view, std::string> parts;
    for (const std::string& folder : folders()) {
      if (!runner::is_part_folder(root_ / folder)) {
        list_.ignored.push_back(folder);
        continue;
      }
      std::string& known = parts[runner::part_of_folder(folder)];
      if (!known.empty()) {
        fail(ErrorCode::kBadAnnotations,
             "'" + root_.string() + "' has both a folder '" + known + "' and a folder '" + folder +
                 "'",
             "keep only one of the two");
      }
      if (known.empty()) known = folder;
    }
    list_.divided = !parts.empty();
    if (list_.divided) {
      for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest})
        if (parts.contains(name(part))) add(part, parts[name(part)]);
    } else if (std::ranges::any_of(std::string("01234"),
                                   [&](char grade) { return has(std::string(1, grade)); })) {
      list_.ignored.clear();  // the grades
      add(Part::kTrain, "");
    } else {
      fail(ErrorCode::kMissingFolder,
           "'" + root_.string() + "' has neither a 'train' folder nor a folder for a grade, 0 to 4",
           "it must contain train, val and test, each with a folder for each grade; `retort data "
           "make fundus_folders --out DIR` creates an example");
    }
    if (!others_.empty())
      fail(ErrorCode::kLabelOutOfRange,
           "folders that are not grades: " + runner::listed(others_, kNamedFundusImages, "'"),
           kGradeHelp);
    if (!errors_.empty()) return std::move(errors_);
    return std::move(list_);
  }

 private:
  /// Returns the folders in the root, sorted, excluding hidden ones.
  std::vector<std::string> folders() const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(root_, error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      std::string folder = at->path().filename().string();
      if (at->is_directory(ignored) && !folder.starts_with('.')) names.push_back(std::move(folder));
    }
    std::ranges::sort(names);
    return names;
  }

  bool has(const std::string& folder) const {
    std::error_code error;
    return fs::is_directory(root_ / folder, error);
  }

  void add(Part part, const std::string& folder) {
    auto found = list_class_folders(folder.empty() ? root_ : root_ / folder, root_, allow_outside_);
    if (!found) {
      for (const runner::Diagnostic& error : found.errors()) errors_.push_back(error);
      return;
    }
    const std::string below = folder.empty() ? "" : folder + "/";
    std::vector<std::optional<std::int64_t>> grades;
    for (const std::string& name : found->classes) {
      grades.push_back(grade_in(name));
      if (!grades.back()) others_.push_back(below + name);
    }
    list_.not_taken.add(found->not_taken);
    for (ImageFile& file : (*found)[Part::kTrain]) {
      const auto grade = grades[static_cast<std::size_t>(file.label)];
      if (!grade) continue;
      ImageFile& listed =
          list_[part].emplace_back(ImageFile{.name = below + file.name, .label = *grade});
      set_owner(listed, names_);
    }
  }

  void fail(ErrorCode code, std::string message, std::string help) {
    errors_.push_back(fundus_error(code, std::move(message), std::move(help)));
  }

  const fs::path root_;
  const bool allow_outside_;
  const PatientNames& names_;
  ImageList list_;
  std::vector<std::string> others_;
  Diagnostics errors_;
};

/// A table of grades, and the location of its images.
struct GradeTable {
  std::string file, image, grade;  // file name and column names
  std::string folder, ending;
};

class GradeTables {
 public:
  GradeTables(const fs::path& root, bool allow_outside, const PatientNames& names)
      : root_(root),
        allow_outside_(allow_outside),
        names_(names),
        files_(root, "use the table as published, or correct it"),
        list_(graded(root)) {}

  void read(const GradeTable& table, Part part) {
    CsvTable csv(files_, table.file, kMaxTableBytes);
    if (csv.columns().empty()) {
      if (files_.is_faultless())
        files_.fault(table.file, "it is empty, or its first line is malformed");
      return;
    }
    const auto image = column(csv, table, table.image), grade = column(csv, table, table.grade);
    if (!image || !grade) return;
    csv.for_rows([&](std::size_t line, const std::vector<std::string>& fields) {
      add_row(table, part, line, std::string(stripped_field(fields[*image])),
              stripped_field(fields[*grade]));
    });
    if (files_.is_faultless() && list_[part].empty())
      files_.fault(table.file, "it lists no images");
  }

  runner::Result<ImageList> list() {
    Diagnostics errors = files_.errors();
    if (errors.empty()) report_missing(errors);
    if (!errors.empty()) return errors;
    list_.annotations = files_.digest();
    return std::move(list_);
  }

 private:
  struct Place {
    std::string file;
    std::size_t line;
    Part part;
    std::string text() const { return file + ", line " + std::to_string(line); }
  };

  std::optional<std::size_t> column(const CsvTable& csv, const GradeTable& table,
                                    const std::string& title) {
    const std::vector<std::string>& titles = csv.columns();
    const auto found = std::ranges::find_if(
        titles, [&](const std::string& one) { return stripped_field(one) == title; });
    if (found != titles.end()) return static_cast<std::size_t>(found - titles.begin());
    files_.fault(table.file, csv.header_line(),
                 "it has no column '" + title + "'; its columns are " +
                     runner::listed(titles, kNamedFundusImages, "'"));
    return std::nullopt;
  }

  void add_row(const GradeTable& table, Part part, std::size_t line, const std::string& image,
               std::string_view text) {
    const std::string shown = "'" + runner::printable_ascii(image) + "'";
    ImageFile file{.name = table.folder + "/" + image + table.ending};
    if (image.empty() || image.find('/') != image.npos || !is_image_path(file.name))
      return files_.fault(table.file, line,
                          "its " + table.image + ", " + shown + ", cannot be a file name");
    if (const fs::path there = disk_.called(root_ / file.name); there != root_ / file.name)
      file.name = there.lexically_relative(root_).string();
    const auto grade = grade_in(text);
    if (!grade) {
      files_.fault(table.file, line,
                   "the " + table.grade + " of " + shown + " is '" + runner::printable_ascii(text) +
                       "', but grades are 0 to 4");
      return;
    }
    const auto [first, is_new] = places_.emplace(file.name, Place{table.file, line, part});
    if (!is_new)
      return files_.fault(
          table.file, line,
          shown + " is listed twice, first on line " + std::to_string(first->second.line));
    file.label = *grade;
    set_owner(file, names_);
    if (file.names_patient) {
      const Place& known = patients_.emplace(file.patient, first->second).first->second;
      if (known.part != part)
        files_.fault(table.file, line,
                     "the patient of " + shown + " is also in another part, " + known.text() +
                         ": both eyes of a patient must be in the same part");
    }
    list_[part].push_back(std::move(file));
  }

  void report_missing(Diagnostics& errors) const {
    std::vector<std::string> missing = missing_files(list_, allow_outside_, errors);
    if (missing.empty()) return;
    for (std::string& path : missing) path = "'" + path + "' (" + places_.at(path).text() + ")";
    errors.push_back(
        fundus_error(ErrorCode::kMissingImage,
                     std::to_string(missing.size()) + " of " + std::to_string(places_.size()) +
                         " images are not in '" + root_.string() +
                         "': " + runner::listed(missing, kNamedFundusImages),
                     "unpack the dataset's archive again, or remove their rows from the table"));
  }

  const fs::path root_;
  const bool allow_outside_;
  const PatientNames& names_;
  AnnotationFiles files_;
  ImageList list_;
  NamesOnDisk disk_;
  std::unordered_map<std::string, Place> places_;    // by image
  std::unordered_map<std::string, Place> patients_;  // the place of each patient's first eye
};

}  // namespace

bool has_published_test(const fs::path& root, FundusLayout layout) {
  std::error_code error;
  return layout == FundusLayout::kEyepacs2015 && fs::exists(root / kEyepacsTest, error);
}

runner::Result<ImageList> list_fundus(const fs::path& root, FundusLayout layout, bool allow_outside,
                                      const PatientNames& names) try {
  std::error_code error;
  if (!fs::is_directory(root, error))
    return Diagnostics{fundus_error(ErrorCode::kMissingFolder,
                                    "there is no folder '" + root.string() + "'",
                                    "check root, or create a small dataset of synthetic images to "
                                    "try things out: `retort data make aptos_2019 --out DIR`")};
  GradeTables tables(root, allow_outside, names);
  switch (layout) {
    case FundusLayout::kClassFolders:
      return GradeFolders(root, allow_outside, names).list();
    case FundusLayout::kAptos2019:
      tables.read({.file = "train.csv",
                   .image = "id_code",
                   .grade = "diagnosis",
                   .folder = "train_images",
                   .ending = ".png"},
                  Part::kTrain);
      break;
    case FundusLayout::kEyepacs2015:
      GradeTable table{.file = "trainLabels.csv",
                       .image = "image",
                       .grade = "level",
                       .folder = "train",
                       .ending = ".jpeg"};
      tables.read(table, Part::kTrain);
      table.file = kEyepacsTest;
      table.folder = "test";
      if (has_published_test(root, layout)) tables.read(table, Part::kTest);
      break;
  }
  return tables.list();
} catch (const runner::StageError& too_long) {
  return Diagnostics{{too_long.code, {}, "/patient", too_long.what(), too_long.help}};
}

}  // namespace stages
