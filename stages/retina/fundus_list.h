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

/// The owner of an image file, according to its name.
struct DrawingOwner {
  /// Images with the same name belong together: images of the same patient or, if the file name
  /// does not identify one, copies of the same image. Never empty.
  std::string name;
  bool is_patient = false;  ///< the file name identifies the patient

  bool operator==(const DrawingOwner&) const = default;
};

/// Groups retina images by their file names:
///
///   PatientNames().of("17_left-600-FA.jpg")      the patient 17
///   PatientNames().of("0a1b2c3d4e5f_rot90.png")  no patient, a copy of 0a1b2c3d4e5f
///
/// A patient is identified by the part of the name before an eye, as EyePACS, ODIR and DeepDRiD
/// write it: 17_left, 17_OD, 17_l1; that part must contain a number. Images of APTOS, IDRiD, DDR
/// and Messidor are identified by their own numbers. From other names the additions of augmentation
/// tools are removed: 12_flip, 12_aug3, rot90_12. For use by one thread.
class PatientNames {
 public:
  /// `pattern`: a regular expression that is searched for in names without folder and extension.
  /// Its group "patient", or else its first group, is the patient. Throws std::invalid_argument
  /// with the fault in the pattern.
  explicit PatientNames(const std::optional<std::string>& pattern = {});

  bool has_pattern() const { return pattern_.has_value(); }

  /// `file`: without its folder; with or without an extension. Throws runner::StageError if
  /// matching the pattern takes too long.
  DrawingOwner of(std::string_view file) const;

 private:
  std::optional<Expression> pattern_;
  std::vector<Expression> wrappers_, prefixes_, eyes_, pictures_, suffixes_;
};

/// The folder layouts of retina images and their grades.
enum class FundusLayout : std::uint8_t { kClassFolders, kAptos2019, kEyepacs2015 };

/// Grades are 0 (no retinopathy) to 4 (proliferative): the classes of every list here, even if no
/// image has them.
inline constexpr std::int64_t kGrades = 5;

/// Does `root` have a test part with published grades? Only EyePACS has: retinopathy_solution.csv.
bool has_published_test(const std::filesystem::path& root, FundusLayout layout);

/// Lists the images of `root`. kClassFolders: {train,val,test}/{0..4}/IMAGE, with the usual part
/// names (runner::part_of_folder()), or {0..4}/IMAGE, which is not `divided`; sorted bytewise.
/// kAptos2019: train.csv, with id_code and diagnosis, and train_images/ID.png, in the order of the
/// table; not divided. kEyepacs2015: trainLabels.csv, with `image` and `level`, and
/// train/IMAGE.jpeg, not divided; if retinopathy_solution.csv exists, also test/IMAGE.jpeg as the
/// test part, in the same way. `names` says which images belong together; without a patient, only
/// images of one grade do. Reports all errors at once, without a place in the recipe and with files
/// and lines: an invalid grade, an image that is listed twice or missing, a patient in both tables
/// of EyePACS, a table without rows. A name whose matching takes too long is an error at
/// "/patient".
runner::Result<ImageList> list_fundus(const std::filesystem::path& root, FundusLayout layout,
                                      bool allow_outside,
                                      const PatientNames& names = PatientNames());

}  // namespace stages
