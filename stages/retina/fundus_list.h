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

/// Whose picture a file is, by its name.
struct PictureOwner {
  /// What belongs together: pictures of the same patient or, where the name tells none, copies of
  /// the same picture. Never empty.
  std::string name;
  bool is_patient = false;  ///< the name tells the patient

  bool operator==(const PictureOwner&) const = default;
};

/// Reads from the names of photographs of the retina which of them belong together:
///
///   PatientNames().of("17_left-600-FA.jpg")      the patient 17
///   PatientNames().of("0a1b2c3d4e5f_rot90.png")  no patient, a copy of 0a1b2c3d4e5f
///
/// Patients are known by what stands before an eye, as EyePACS, ODIR and DeepDRiD write it:
/// 17_left, 17_OD, 17_l1; a number must be in it. Pictures of APTOS, IDRiD, DDR and Messidor are
/// known by their own numbers. Of other names what tools that augment data sets add is taken away:
/// 12_flip, 12_aug3, rot90_12. It is for one thread.
class PatientNames {
 public:
  /// `pattern`: a regular expression of which the group "patient", or else the first, is the
  /// patient in the names that it matches somewhere. Names are without folder and ending. Throws
  /// std::invalid_argument saying what is wrong with it.
  explicit PatientNames(const std::optional<std::string>& pattern = {});

  bool has_pattern() const { return pattern_.has_value(); }

  /// `file`: without its folder; with or without an ending. Throws runner::StageError where the
  /// pattern takes too long.
  PictureOwner of(std::string_view file) const;

 private:
  std::optional<Expression> pattern_;
  std::vector<Expression> wrappers_, prefixes_, eyes_, pictures_, suffixes_;
};

/// How photographs of the retina and their grades lie in a folder.
enum class FundusLayout : std::uint8_t { kClassFolders, kAptos2019, kEyepacs2015 };

/// Grades are 0 (no retinopathy) to 4 (proliferative): the classes of every list here, whether a
/// photograph has them or not.
inline constexpr std::int64_t kGrades = 5;

/// Does `root` hold a test part whose grades are published with it? Of EyePACS alone:
/// retinopathy_solution.csv.
bool has_published_test(const std::filesystem::path& root, FundusLayout layout);

/// Lists what `root` holds. kClassFolders: {train,val,test}/{0..4}/IMAGE, with the usual names of
/// parts (runner::part_of_folder()), or {0..4}/IMAGE, which is not `divided`; sorted bytewise.
/// kAptos2019: train.csv, of which id_code and diagnosis are read, and train_images/ID.png, in the
/// order of the table; not divided. kEyepacs2015: trainLabels.csv, of which `image` and `level` are
/// read, and train/IMAGE.jpeg, not divided, and where retinopathy_solution.csv is there, the same
/// of test/IMAGE.jpeg as the test part. What belongs together is what `names` says; where that is
/// no patient, pictures of one grade alone. Everything wrong is reported at once, without a place
/// in the recipe and with files and lines: another grade, a photograph that is listed twice or is
/// not there, a patient of both tables of EyePACS, a table without rows. A name that takes too long
/// is blamed on "/patient".
runner::Result<ImageList> list_fundus(const std::filesystem::path& root, FundusLayout layout,
                                      bool allow_outside,
                                      const PatientNames& names = PatientNames());

}  // namespace stages
