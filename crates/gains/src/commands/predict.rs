//! `gains predict`.

use crate::campaign::report_panic;
use crate::cli::{Global, PrecisionArg, PredictArgs, RegionArgs};
use crate::failure::{Failure, Outcome};
use crate::question::Model;
use crate::subject::Source;
use crate::table::layout;
use crate::{files, interrupt, panics, progress, tell};

/// Runs the command.
pub fn run(args: &PredictArgs, global: &Global) -> Outcome {
    let model = Model::new(files::load_model(args.model.as_deref())?);
    let region = RegionArgs::default();
    let source = Source::open(&model, &args.data, &args.series, &region)?;
    let subject = source.subject(&model, &args.data, &args.series, &region)?;
    let bar = progress::bar(subject.indices().len() as u64, global.quiet, progress::ITEMS);
    let (mut rows, mut scores, mut panicked) = (Vec::new(), Vec::new(), 0);
    for &index in subject.indices().iter().take_while(|_| !interrupt::requested()) {
        bar.inc(1);
        let shown = panics::contain(|| {
            panics::provoke(index);
            subject.predict(index, args.precision.into())
        });
        let shown = match shown {
            // What was cut short has no result.
            Ok(Err(_)) if interrupt::requested() => break,
            Ok(shown) => shown.map_err(|e| {
                let hint = match args.precision {
                    PrecisionArg::Float32 => "try --precision float64",
                    PrecisionArg::Float64 => "`gains model show` tells how the network is solved",
                };
                Failure::new(format!("{}: {e}", subject.name(index))).hint(hint)
            })?,
            Err(caught) => {
                report_panic(&bar, &*subject, (index, None), &caught);
                panicked += 1;
                continue;
            }
        };
        scores.push(shown.score);
        if args.json {
            tell::print(&format!("{}\n", shown.json))?;
        } else {
            rows.push(shown.row);
        }
    }
    bar.finish_and_clear();
    if !args.json {
        let table = layout(subject.predict_header(), &rows);
        tell::print(&format!("{table}\n{}", subject.predict_summary(&scores)))?;
    }
    if panicked > 0 {
        return Err(Failure::new(format!(
            "{panicked} of {} samples made gains panic",
            subject.indices().len()
        ))
        .hint("the others are shown; please report it with the model and the lines above"));
    }
    Ok(())
}
