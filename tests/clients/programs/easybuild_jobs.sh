# EasyBuild: two modules, one needs the other, each installed by a job of its own.
set -eu
. /etc/profile.d/lmod.sh
make() {
    cat >"$1-1.0.eb" <<END
easyblock = 'Bundle'
name = '$1'
version = '1.0'
homepage = 'http://localhost'
description = 'A bundle of nothing'
toolchain = SYSTEM
dependencies = [$2]
modextravars = {'MADE_BY': '%(name)s'}
moduleclass = 'tools'
END
}
make below ""
make above "('below', '1.0')"
export EASYBUILD_PREFIX="$PWD/eb" EASYBUILD_ROBOT_PATHS="$PWD"
eb above-1.0.eb --robot --job --job-backend=Slurm --job-cores=2 --job-max-walltime=1 \
    --job-output-dir="$PWD" >said 2>&1 || { cat said; exit 1; }
ids=$(sed -n 's/.*List of submitted jobs (2): //p' said | grep -o ': [0-9]*' | tr -d ': ' | paste -sd,)
while squeue -ho %i -j "$ids" 2>/dev/null | grep -q .; do sleep 1; done
[ "$(sacct -nXPo State,ReqCPUS,Timelimit -j "$ids" | sort -u)" = "COMPLETED|2|01:00:00" ]
module use "$PWD/eb/modules/all"
module load above/1.0
[ "$MADE_BY $LOADEDMODULES" = "above below/1.0:above/1.0" ]
echo "EasyBuild $(eb --version | sed 's/.*EasyBuild \([0-9.]*\).*/\1/') ok"
