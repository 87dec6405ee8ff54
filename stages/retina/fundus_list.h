#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"
#include "stages/text/expression.h"

namespace stages {

/// The owner of an image, according to its file name.
struct DrawingOwner {
  /// Images with the same owner belong together: they show the same patient or, if file names do
  /// not identify the patient, they are copies of the same image. Never empty.
  std::string name;
  bool is_patient = false;  ///< the file name identifies the patient

  bool operator==(const DrawingOwner&) const = default;
};

/// Groups retina images by their file names:
///
///   PatientNames().of("17_left-600-FA.jpg")      the patient 17
///   PatientNames().of("0a1b2c3d4e5f_rot90.png")  no patient, a copy of 0a1b2c3d4e5f
///
/// The part of a name before the eye identifies the patient, as in EyePACS, ODIR and DeepDRiD:
/// 17_left, 17_OD, 17_l1. That part must contain a number. In APTOS, IDRiD, DDR and Messidor, an
/// image's own number identifies the image. In other names, anything that augmentation tools have
/// added is removed: 12_flip, 12_aug3, rot90_12. Not thread-safe.
class PatientNames {
 public:
  /// `pattern` is a regular expression that is searched for in names without folder or extension.
  /// Its group "patient" or, failing that, its first group matches the patient. Throws a
  /// std::invalid_argument that describes the error in the pattern.
  explicit PatientNames(const std::optional<std::string>& pattern = {});

  bool has_pattern() const { return pattern_.has_value(); }

  /// Returns the owner of `file`, a file name without its folder, with or without extension. Throws
  /// runner::StageError if matching the pattern takes too long.
  DrawingOwner of(std::string_view file) const;

 private:
  std::optional<Expression> pattern_;
  std::vector<Expression> wrappers_, prefixes_, eyes_, pictures_, suffixes_;
};

/// The folder layouts of retina images and their grades.
enum class FundusLayout : std::uint8_t { kClassFolders, kAptos2019, kEyepacs2015 };

/// Number of grades, from 0 (no retinopathy) to 4 (proliferative). Every list has all of them as
/// classes, even if it has no image of a grade.
inline constexpr std::int64_t kGrades = 5;

/// True if `root` has a test part with published grades. Only EyePACS has one:
/// retinopathy_solution.csv.
bool has_published_test(const std::filesystem::path& root, FundusLayout layout);

/// Lists the images of `root`.
///   kClassFolders: {train,val,test}/{0..4}/IMAGE, with the usual part names
///     (runner::part_of_folder()), or {0..4}/IMAGE, which is not `divided`; sorted bytewise.
///   kAptos2019: train.csv, with id_code and diagnosis, and train_images/ID.png, in the order of
///     the table; not divided.
///   kEyepacs2015: trainLabels.csv, with `image` and `level`, and train/IMAGE.jpeg; not divided. If
///     retinopathy_solution.csv exists, also test/IMAGE.jpeg as the test part.
/// `names` determines which images belong together; images without a patient belong together only
/// if they have the same grade. Reports all errors together, with files and lines but without a
/// location in the recipe: invalid grades, images that are listed twice or missing, patients in
/// both tables of EyePACS, tables without rows. If matching a name takes too long, the error is at
/// "/patient".
runner::Result<ImageList> list_fundus(const std::filesystem::path& root, FundusLayout layout,
                                      bool allow_outside,
                                      const PatientNames& names = PatientNames());

}  // namespace stages
